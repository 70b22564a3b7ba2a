package history

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/millrace/millrace/internal/engine"
)

// sample returns a small history and the offsets of its frames. It has two locations, whose
// frames alternate, and steps with every possible content.
func sample(t testing.TB) (file []byte, at []int64, steps []Step) {
	t.Helper()
	shapes := []engine.Shape{
		{Location: "Server", Ops: []engine.ShapeOp{{Name: "dataflow.Input xs", Pos: "a.go:1", Takes: []string{"int"}}, {Name: "dataflow.ForEach", Pos: "a.go:2", Reads: []string{"0"}}}},
		{Location: "Client", Ops: []engine.ShapeOp{{Name: "keyedstream.Input ks", Pos: "a.go:3", Takes: []string{"string", "int"}}}},
	}
	steps = []Step{
		{Number: 0, Location: 0, Start: true, Origin: 1700000000000000000},
		{Number: 1, Location: 1, Start: true, Origin: -5, Now: 7},
		{Number: 2, Location: 0, Takes: []Take{{0, 2, []byte{1, 1, 2, 0x18, 0x64}}}},
		{Number: 3, Location: 0, Fire: true, Now: 1 << 40, Takes: []Take{{0, 1, []byte{1, 3}}, {1, 1, nil}, {0, 1, []byte{1, 4}}}},
		{Number: 5, Location: 1, Now: 9, Takes: []Take{{0, 1, []byte{2, 0x61, 'k', 1, 5}}}},
		{Number: 6, Location: 0, Now: 1 << 39},
	}
	var b bytes.Buffer
	w, err := NewWriter(&b, NewHeader(shapes))
	if err != nil {
		t.Fatal(err)
	}
	at = []int64{4}
	blocks := make([]block, 2)
	for i := range steps {
		s := &steps[i]
		if blocks[s.Location].add(s); i == 2 || i >= len(steps)-2 {
			at = append(at, w.Written())
			if err := w.block(&blocks[s.Location]); err != nil {
				t.Fatal(err)
			}
		}
	}
	at = append(at, w.Written())
	if err := w.End(End{Steps: uint64(len(steps)), Complete: true, Failed: "why"}); err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), at, steps
}

// read returns the steps and the note of a file.
func read(r io.Reader) (steps []Step, note string, err error) {
	x, err := NewReader(r)
	if err != nil {
		return nil, "", err
	}
	err = x.All(func(s *Step) error {
		steps = append(steps, *s)
		return nil
	})
	return steps, x.Note(), err
}

// TestRoundTrip fails if a field of a step or header is lost or moved.
func TestRoundTrip(t *testing.T) {
	for _, slow := range []func(io.Reader) io.Reader{func(r io.Reader) io.Reader { return r }, iotest.OneByteReader, iotest.DataErrReader} {
		file, _, want := sample(t)
		r := slow(bytes.NewReader(file))
		x, err := NewReader(r)
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[uint64]Step)
		if err := x.All(func(s *Step) error { got[s.Number] = *s; return nil }); err != nil || x.Note() != "" {
			t.Fatal(err, x.Note())
		}
		for _, s := range want {
			is := got[s.Number]
			for i := range s.Takes {
				if !bytes.Equal(is.Takes[i].Data, s.Takes[i].Data) {
					t.Errorf("step %d took %x, want %x", s.Number, is.Takes[i].Data, s.Takes[i].Data)
				}
				is.Takes[i].Data, s.Takes[i].Data = nil, nil
			}
			if !reflect.DeepEqual(is, s) {
				t.Errorf("read %+v, want %+v", is, s)
			}
		}
		if e := x.End(); len(got) != len(want) || e == nil || !e.Complete || e.Failed != "why" || e.Steps != uint64(len(want)) {
			t.Errorf("%d steps, end %+v", len(got), e)
		}
		if h := x.Header(); len(h.Locations) != 2 || h.Locations[1].Ops[0].Takes[1] != "int" || h.Codec != "cbor" {
			t.Errorf("the header is %+v", h)
		}
	}
}

// TestFlippedByte changes each byte of a file to each other value. Reading must return an error
// that names the frame of the byte. If a damaged length passed for a truncated file, what follows
// would be lost silently.
func TestFlippedByte(t *testing.T) {
	file, frames, _ := sample(t)
	for i := range file {
		want := int64(0)
		for _, at := range frames {
			if at <= int64(i) {
				want = at
			}
		}
		for x := 1; x < 256; x++ {
			changed := bytes.Clone(file)
			changed[i] ^= byte(x)
			_, note, err := read(bytes.NewReader(changed))
			var damage *Error
			if !errors.As(err, &damage) || damage.Offset != want {
				t.Fatalf("byte %d ^ %#x, in the frame at %d: %v, note %q", i, x, want, err, note)
			}
		}
	}
}

// TestCutOff truncates a file at each length. What comes before the cut is read, and the rest is
// noted. Only a truncated header is an error.
func TestCutOff(t *testing.T) {
	file, frames, _ := sample(t)
	for n := range file {
		steps, note, err := read(bytes.NewReader(file[:n]))
		if int64(n) < frames[1] {
			var damage *Error
			if !errors.As(err, &damage) {
				t.Fatalf("cut at %d, in the header: %v", n, err)
			}
			continue
		}
		if err != nil || note == "" || len(steps) != stepsBefore(file, frames, n) {
			t.Fatalf("cut at %d: %d steps, want %d, note %q, %v", n, len(steps), stepsBefore(file, frames, n), note, err)
		}
	}
}

// stepsBefore counts the steps of the complete frames before a cut.
func stepsBefore(file []byte, frames []int64, n int) (steps int) {
	ends := append(frames[1:len(frames):len(frames)], int64(len(file)))
	counts := []int{0, 2, 2, 2, 0} // steps in the header, in each frame of steps, and in the last frame
	for i, end := range ends {
		if end <= int64(n) {
			steps += counts[i]
		}
	}
	return steps
}

// TestTrailing fails if a reader ignores data after the last frame.
func TestTrailing(t *testing.T) {
	file, _, _ := sample(t)
	if _, _, err := read(bytes.NewReader(append(file, 0))); err == nil || !strings.Contains(err.Error(), "follows the last frame") {
		t.Error(err)
	}
	if _, _, err := read(bytes.NewReader(append(file, file...))); err == nil {
		t.Error("two files in a row are one")
	}
}

// TestNoHistory checks the errors for files that are not histories.
func TestNoHistory(t *testing.T) {
	for text, want := range map[string]string{
		"":                    "the file is empty",
		"MR":                  "it is no history",
		"MRH2\x00\x00\x00":    "made by another version",
		"PK\x03\x04 and more": "it is no history",
		"MRH1":                "ends within its header",
	} {
		if _, _, err := read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// TestHostile checks that well-formed frames that announce missing data are an error, and
// allocate no memory for it.
func TestHostile(t *testing.T) {
	file, frames, _ := sample(t)
	head := file[:frames[1]:frames[1]]
	frame := func(kind byte, payload ...byte) []byte { return appendFrame(head, kind, payload) }
	long := append(head, 0xff, 0xff, 0xff, 0xff, 0x0f, kindSteps)
	long = append(long, check(long[len(head):]))
	large := append(head, 0xff, 0xff, 0xff, 0x7f, kindSteps)
	large = append(large, check(large[len(head):]))
	tests := map[string]struct {
		file []byte
		want string
	}{
		"length beyond the bound":    {long, "more than"},
		"no location":                {frame(kindSteps, 9), "steps of location 9"},
		"unknown kind":               {frame(77, 1), "kind 77"},
		"unknown flags":              {frame(kindSteps, 0, 0, 0x80, 0), "unknown flags"},
		"not the first step":         {frame(kindSteps, 0, 0, 0, 0), "a frame is missing"},
		"second start":               {frame(kindSteps, 0, 0, flagStart, 0, 0, 1, flagStart, 0, 0), "a second first one"},
		"a number twice":             {frame(kindSteps, 0, 0, flagStart, 0, 0, 0, 0, 0), "does not come after"},
		"takes without end":          {frame(kindSteps, 0, 0, flagStart, 0, 0xff, 0xff, 0xff, 0xff, 0x0f), "ends within its frame"},
		"more records than bytes":    {frame(kindSteps, 0, 0, flagStart, 0, 1, 0, 0xff, 0xff, 0x03, 1, 0), "65535 records"},
		"no records":                 {frame(kindSteps, 0, 0, flagStart, 0, 1, 0, 0, 0), "takes 0 records"},
		"fires at no time":           {frame(kindSteps, 0, 0, flagStart|flagFire, 0, 0), "has the time 0"},
		"time before the beginning":  {frame(kindSteps, 0, 0, flagStart|flagTimed, 0, 1, 0), "has the time -1"},
		"a last frame of other size": {frame(kindEnd, 0xa2, 0x65, 's', 't', 'e', 'p', 's', 9, 0x68, 'c', 'o', 'm', 'p', 'l', 'e', 't', 'e', 0xf5), "the last frame says 9"},
		"a last frame of nothing":    {frame(kindEnd), "the last frame cannot be read"},
		"two headers":                {appendFrame(head, kindHeader, nil), "kind 1"},
		"a header of nothing":        {appendFrame([]byte(magic), kindHeader, nil), "the header cannot be read"},
		"no header":                  {appendFrame([]byte(magic), kindSteps, nil), "no header"},
		"a later format":             {appendFrame([]byte(magic), kindHeader, []byte{0xa1, 0x66, 'f', 'o', 'r', 'm', 'a', 't', 2}), "of format 2"},
		"another codec":              {appendFrame([]byte(magic), kindHeader, []byte{0xa1, 0x66, 'f', 'o', 'r', 'm', 'a', 't', 1}), `encoded as ""`},
	}
	for name, test := range tests {
		if _, _, err := read(bytes.NewReader(test.file)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	// 256 MiB are missing: the frame is cut off, and nothing of that size is allocated.
	if n := testing.AllocsPerRun(1, func() {
		if _, note, err := read(bytes.NewReader(large)); err != nil || note == "" {
			t.Error(note, err)
		}
	}); n > 1000 {
		t.Errorf("%v allocations", n)
	}
}

// TestReadError checks that an error of the reader is returned, and not taken for the end of the file.
func TestReadError(t *testing.T) {
	file, _, _ := sample(t)
	broken := errors.New("broken")
	for n := range file {
		r := io.MultiReader(bytes.NewReader(file[:n]), iotest.ErrReader(broken))
		if _, note, err := read(r); !errors.Is(err, broken) {
			t.Fatalf("broken at %d: %v, note %q", n, err, note)
		}
	}
}

// FuzzReader finds files that make the reader panic, allocate without bound, or return steps that
// cannot be loaded and written again.
func FuzzReader(f *testing.F) {
	file, frames, _ := sample(f)
	f.Add(file)
	f.Add(file[:frames[2]])
	f.Add([]byte(magic))
	f.Add(appendFrame(file[:frames[1]:frames[1]], kindSteps, []byte{0, 0, flagStart, 0, 0}))
	f.Fuzz(func(t *testing.T, data []byte) {
		// The checksums are corrected, so that the code behind them is reached too.
		for _, file := range [][]byte{data, appendFrame(file[:frames[1]:frames[1]], kindSteps, data)} {
			var r engine.Recording
			if err := Load(bytes.NewReader(file), &r); err != nil {
				continue
			}
			var first, again bytes.Buffer
			if _, err := Save(&r, &first); err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			var twice engine.Recording
			if err := Load(bytes.NewReader(first.Bytes()), &twice); err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
			if _, err := Save(&twice, &again); err != nil || !bytes.Equal(first.Bytes(), again.Bytes()) {
				t.Fatalf("written twice, it is not the same: %v", err)
			}
		}
	})
}
