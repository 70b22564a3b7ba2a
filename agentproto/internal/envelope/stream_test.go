package envelope_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/millrace/millrace/agentproto/internal/envelope"
)

func streams(t *testing.T) *envelope.Envelope {
	t.Helper()
	e, err := envelope.New(bytes.Repeat([]byte("k"), envelope.MinSecret), "streams")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func sealStream(t *testing.T, e *envelope.Envelope, text []byte, about ...string) []byte {
	t.Helper()
	sealed, err := io.ReadAll(e.SealStream(bytes.NewReader(text), about...))
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

func TestStream(t *testing.T) {
	e := streams(t)
	for _, n := range []int{0, 1, 64<<10 - 1, 64 << 10, 64<<10 + 1, 200_000} {
		text := bytes.Repeat([]byte("x"), n)
		sealed := sealStream(t, e, text, "a", "b")
		for name, r := range map[string]io.Reader{
			"whole": bytes.NewReader(sealed), "by the byte": iotest.OneByteReader(bytes.NewReader(sealed)), "data with the end": iotest.DataErrReader(bytes.NewReader(sealed)),
		} {
			if got, err := io.ReadAll(e.OpenStream(r, "a", "b")); err != nil || !bytes.Equal(got, text) {
				t.Errorf("%d bytes, %s: %d bytes, %v", n, name, len(got), err)
			}
		}
		if n > 0 && bytes.Contains(sealed, text[:min(n, 16)]) && n > 8 {
			t.Errorf("%d bytes: they can be read", n)
		}
		if _, err := io.ReadAll(e.OpenStream(bytes.NewReader(sealed), "a", "c")); !errors.Is(err, envelope.ErrForged) {
			t.Errorf("%d bytes: of another stream: %v", n, err)
		}
	}
}

// TestStreamAltered checks that a stream altered in any way is an error, and that no altered
// data is returned.
func TestStreamAltered(t *testing.T) {
	e := streams(t)
	text := make([]byte, 150_000)
	for i := range text {
		text[i] = byte(i >> 8)
	}
	sealed := sealStream(t, e, text, "a")
	var pieces [][]byte
	for rest := sealed; len(rest) > 0; {
		n := 4 + int(binary.BigEndian.Uint32(rest))
		pieces, rest = append(pieces, rest[:n]), rest[n:]
	}
	if len(pieces) != 3 {
		t.Fatalf("%d pieces", len(pieces))
	}
	bit := slices.Clone(sealed)
	bit[70_000] ^= 1
	for name, test := range map[string]struct {
		stream []byte
		want   error
	}{
		"cut off between pieces": {slices.Concat(pieces[0], pieces[1]), io.ErrUnexpectedEOF},
		"cut off in a piece":     {sealed[:100_000], io.ErrUnexpectedEOF},
		"cut off in a length":    {sealed[:len(pieces[0])+2], io.ErrUnexpectedEOF},
		"empty":                  {nil, io.ErrUnexpectedEOF},
		"exchanged":              {slices.Concat(pieces[1], pieces[0], pieces[2]), envelope.ErrForged},
		"twice":                  {slices.Concat(pieces[0], pieces[0], pieces[1], pieces[2]), envelope.ErrForged},
		"left out":               {slices.Concat(pieces[0], pieces[2]), envelope.ErrForged},
		"a bit":                  {bit, envelope.ErrForged},
		"a length":               {slices.Concat([]byte{255, 255, 255, 255}, sealed), envelope.ErrForged},
		"no piece":               {slices.Concat([]byte{0, 0, 0, 0}, sealed), envelope.ErrForged},
	} {
		got, err := io.ReadAll(e.OpenStream(bytes.NewReader(test.stream), "a"))
		if !errors.Is(err, test.want) || !bytes.HasPrefix(text, got) {
			t.Errorf("%s: %d bytes, %v, want %v", name, len(got), err, test.want)
		}
	}
}

// TestStreamBroken checks that a source that cannot be read to its end yields no complete
// stream.
func TestStreamBroken(t *testing.T) {
	e := streams(t)
	broken := errors.New("broken")
	for i, n := range []int64{0, 10, 100_000, 0, 10, 100_000} {
		if i == 3 {
			broken = io.ErrUnexpectedEOF // as for a request that is cut off
		}
		r := io.MultiReader(io.LimitReader(zeros{}, n), iotest.ErrReader(broken))
		sealed, err := io.ReadAll(e.SealStream(r, "a"))
		if !errors.Is(err, broken) {
			t.Errorf("%d bytes: sealing: %v", n, err)
		}
		if _, err := io.ReadAll(e.OpenStream(bytes.NewReader(sealed), "a")); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%d bytes: opening: %v", n, err)
		}
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
