package recordings_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/recordings"
)

// A secretive has a field that no encoding includes.
type secretive struct{ n int }

// TestUnwritable checks that a flow whose records would lose data in a file is refused: by a Recorder
// before the start, and by Write before it writes. The error names the operator and the field.
func TestUnwritable(t *testing.T) {
	build := func(f *dataflow.Flow) *dataflow.InputPort[secretive] {
		in, xs := dataflow.Input[secretive](dataflow.At[dataflow.Here](f), "secrets")
		dataflow.ForEach(xs, func(secretive) {})
		return in
	}
	const want = "dataflow.Input secrets (recorder_test.go:"
	flow := dataflow.NewWithOptions(dataflow.Options{Recorder: recordings.NewRecorder(new(bytes.Buffer))})
	build(flow)
	if _, err := dataflow.Start(t.Context(), flow); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "field n of recordings_test.secretive is not exported") {
		t.Errorf("the start: %v", err)
	}

	var recording dataflow.Recording
	flow = dataflow.NewWithOptions(dataflow.Options{Record: &recording})
	in := build(flow)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Send(t.Context(), secretive{1}); err != nil {
		t.Fatal(err)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if n, err := recordings.Write(&b, &recording); err == nil || !strings.Contains(err.Error(), want) || n != 0 || b.Len() > 0 {
		t.Errorf("%d bytes: %v", n, err)
	}
}

// A failing is a value that cannot be encoded, or whose method panics.
type failing struct{ How string }

func (f failing) MarshalBinary() ([]byte, error) {
	switch f.How {
	case "panic":
		panic("no words")
	case "error":
		return nil, errors.New("no words")
	}
	return []byte(f.How), nil
}

func (f *failing) UnmarshalBinary(b []byte) error {
	f.How = string(b)
	return nil
}

// A smallDisk fails after a number of bytes.
type smallDisk struct {
	bytes.Buffer
	left int
}

var errFull = errors.New("the disk is full")

func (w *smallDisk) Write(b []byte) (int, error) {
	n := min(len(b), w.left)
	w.left -= n
	w.Buffer.Write(b[:n])
	if n < len(b) {
		return n, errFull
	}
	return n, nil
}

// echo builds a flow that outputs what it receives.
func echo[T any](f *dataflow.Flow) (*dataflow.InputPort[T], *dataflow.OutputPort[T]) {
	in, xs := dataflow.Input[T](dataflow.At[dataflow.Here](f), "xs")
	return in, dataflow.Output(xs, "ys")
}

// TestRecordingFails checks that an error of the writer, at any place, or of a value ends the
// recording but not the flow. Close returns the error, and what was written before can be read.
func TestRecordingFails(t *testing.T) {
	run := func(t *testing.T, w *smallDisk, xs []failing) *dataflow.Recorder {
		t.Helper()
		recorder := recordings.NewRecorder(w)
		flow := dataflow.NewWithOptions(dataflow.Options{Recorder: recorder})
		in, out := echo[failing](flow)
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range xs {
			if err := in.Send(t.Context(), x); err != nil {
				t.Fatal(err)
			}
			if y, err := out.Next(t.Context()); err != nil || y != x {
				t.Fatalf("the flow gave %v, %v", y, err)
			}
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		return recorder
	}
	long := strings.Repeat("x", 100)
	var many []failing
	for range 2000 {
		many = append(many, failing{long})
	}
	whole := &smallDisk{left: 1 << 30}
	if err := run(t, whole, many).Close(); err != nil {
		t.Fatal(err)
	}
	for limit := 0; limit < whole.Len(); limit += 1 + limit/7 {
		w := &smallDisk{left: limit}
		r := run(t, w, many)
		for range 2 {
			if err := r.Close(); !errors.Is(err, errFull) || !errors.Is(r.Err(), errFull) {
				t.Fatalf("a writer of %d bytes: %v, %v", limit, err, r.Err())
			}
		}
		if w.Len() > limit {
			t.Fatalf("a writer of %d bytes has %d", limit, w.Len())
		}
		if limit < 1000 {
			continue // the header may be truncated
		}
		recording, err := recordings.Read(bytes.NewReader(w.Bytes()))
		if err != nil || recording.Note() == "" {
			t.Fatalf("what was written of %d bytes: %v", limit, err)
		}
	}
	for _, how := range []string{"error", "panic"} {
		w := &smallDisk{left: 1 << 30}
		r := run(t, w, []failing{{"a"}, {"b"}, {how}, {"c"}})
		if err := r.Close(); err == nil || !strings.Contains(err.Error(), "no words") || !strings.Contains(err.Error(), "dataflow.Input xs") {
			t.Errorf("a value whose encoding is a %s: %v", how, err)
		}
		var inMemory dataflow.Recording
		flow := dataflow.NewWithOptions(dataflow.Options{Record: &inMemory})
		in, _ := echo[failing](flow)
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		if err := in.Send(t.Context(), failing{how}); err != nil {
			t.Fatal(err)
		}
		app.Stop(t.Context())
		if _, err := recordings.Write(new(bytes.Buffer), &inMemory); err == nil || !strings.Contains(err.Error(), "no words") || !strings.Contains(err.Error(), "dataflow.Input xs") {
			t.Errorf("a value whose encoding is a %s, in memory: %v", how, err)
		}
	}
}

// TestRecorderUnderLoad runs many senders and locations while the recorder is flushed, queried and
// closed. With the race detector it catches a buffer that two goroutines write.
func TestRecorderUnderLoad(t *testing.T) {
	for _, early := range []bool{false, true} {
		var file bytes.Buffer
		recorder := recordings.NewRecorder(&file)
		flow := dataflow.NewWithOptions(dataflow.Options{Recorder: recorder, Queue: 16})
		var ins []*dataflow.SharedInputPort[string]
		for i := range 3 {
			in, xs := dataflow.SharedInput[string](dataflow.At[dataflow.Here](flow), fmt.Sprint("xs", i))
			dataflow.Inspect(xs, func(string) {})
			ins = append(ins, in)
		}
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for g := range 6 {
			all.Go(func() {
				for i := range 500 {
					if err := ins[g%3].Send(context.Background(), strings.Repeat("x", i)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 2 {
			all.Go(func() {
				for range 50 {
					if err := errors.Join(recorder.Flush(), recorder.Err()); err != nil {
						t.Error(err)
					}
				}
				if early {
					if err := recorder.Close(); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := recorder.Close(); err != nil {
			t.Fatal(err)
		}
		recording, err := recordings.Read(&file)
		if err != nil || recording.Note() != "" {
			t.Fatal(err)
		}
		if n := recording.Steps(); n == 0 || !early && n < 100 {
			t.Errorf("%d steps", n)
		}
	}
}

// TestRecorderMisuse checks the messages for misuse of a recorder.
func TestRecorderMisuse(t *testing.T) {
	r := recordings.NewRecorder(new(bytes.Buffer))
	dataflow.NewWithOptions(dataflow.Options{Recorder: r})
	var zero dataflow.Recorder
	for want, f := range map[string]func(){
		"dataflow: NewWithOptions: the Recorder is that of another flow": func() { dataflow.NewWithOptions(dataflow.Options{Recorder: r}) },
		"dataflow: NewWithOptions: there are a Record and a Recorder": func() {
			dataflow.NewWithOptions(dataflow.Options{Recorder: recordings.NewRecorder(new(bytes.Buffer)), Record: new(dataflow.Recording)})
		},
		"recordings: NewRecorder: the writer is nil":              func() { recordings.NewRecorder(nil) },
		"recordings: Read: the reader is nil":                     func() { recordings.Read(nil) },
		"recordings: Write: the writer is nil":                    func() { recordings.Write(nil, new(dataflow.Recording)) },
		"dataflow: Recorder: the value used at recorder_test.go":  func() { zero.Close() },
		"dataflow: Recording: the value used at recorder_test.go": func() { recordings.Write(new(bytes.Buffer), nil) },
	} {
		if got := panicked(f); !strings.HasPrefix(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
	if err := r.Close(); err == nil || !strings.Contains(err.Error(), "no flow that was started") {
		t.Error(err)
	}
	if _, err := recordings.Read(strings.NewReader("no history")); err == nil || !strings.Contains(err.Error(), "it is no history") {
		t.Error(err)
	}
}

// TestRecorderMemory checks that recording a step allocates nothing after its buffers exist.
func TestRecorderMemory(t *testing.T) {
	type event struct {
		Kind string
		N    int64
	}
	flow := dataflow.NewWithOptions(dataflow.Options{Recorder: recordings.NewRecorder(discard{})})
	in, xs := dataflow.Input[event](dataflow.At[dataflow.Here](flow), "xs")
	dataflow.ForEach(xs, func(event) {})
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	send := func() {
		if err := in.Send(t.Context(), event{"tea", 1 << 40}); err != nil {
			t.Fatal(err)
		}
	}
	for range 10000 { // more than a block
		send()
	}
	ctx := t.Context()
	if n := testing.AllocsPerRun(10000, func() { in.Send(ctx, event{"tea", 1 << 40}) }); n > 0 {
		t.Errorf("a step makes %v allocations", n)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// panicked returns the text of f's panic.
func panicked(f func()) (what string) {
	defer func() {
		if v := recover(); v != nil {
			what = fmt.Sprint(v)
		}
	}()
	f()
	return "no panic"
}
