package sim_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/recordings"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// recorded returns the recording of three numbers that are sent to a flow.
func recorded(t *testing.T) *dataflow.Recording {
	t.Helper()
	var recording dataflow.Recording
	flow := dataflow.NewWithOptions(dataflow.Options{Record: &recording})
	in, xs := dataflow.Input[int](dataflow.At[Server](flow), "xs")
	keyedstream.Inspect(dataflow.KeyBy(xs, func(x int) int { return x % 2 }), func(int) {})
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := in.Send(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	return &recording
}

// loaded returns a recording as another process reads it.
func loaded(t *testing.T, r *dataflow.Recording) *dataflow.Recording {
	t.Helper()
	var b bytes.Buffer
	if _, err := recordings.Write(&b, r); err != nil {
		t.Fatal(err)
	}
	r, err := recordings.Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestOtherFlow checks that a recording of another flow is refused before a step is made, and that
// the message shows the first operator that differs, in the recording and in the flow now.
func TestOtherFlow(t *testing.T) {
	even := func(x int) int { return x % 2 }
	tests := []struct {
		name  string
		build func(f *dataflow.Flow)
		want  string
	}{
		{"another operator", func(f *dataflow.Flow) {
			_, xs := dataflow.Input[int](dataflow.At[Server](f), "xs")
			keyedsingleton.Inspect(keyedstream.First(dataflow.KeyBy(xs, even)), func(int) {})
		}, "operator 2 of Server was keyedstream.Inspect (file_fit_test.go:23), is keyedstream.First (file_fit_test.go:"},
		{"another input", func(f *dataflow.Flow) {
			_, xs := dataflow.Input[int](dataflow.At[Server](f), "ys")
			keyedstream.Inspect(dataflow.KeyBy(xs, even), func(int) {})
		}, "operator 0 of Server was dataflow.Input xs (file_fit_test.go:22), is dataflow.Input ys"},
		{"another type", func(f *dataflow.Flow) {
			_, xs := dataflow.Input[int64](dataflow.At[Server](f), "xs")
			keyedstream.Inspect(dataflow.KeyBy(xs, func(x int64) int64 { return x }), func(int64) {})
		}, "was dataflow.Input xs taking int, is dataflow.Input xs taking int64"},
		{"fewer operators", func(f *dataflow.Flow) {
			_, xs := dataflow.Input[int](dataflow.At[Server](f), "xs")
			dataflow.KeyBy(xs, even)
		}, "operator 2 of Server was keyedstream.Inspect (file_fit_test.go:23), is missing"},
		{"wired in another way", func(f *dataflow.Flow) {
			_, xs := dataflow.Input[int](dataflow.At[Server](f), "xs")
			ks := dataflow.KeyBy(xs, even)
			keyedstream.Inspect(ks, func(int) {})
			keyedstream.Inspect(ks, func(int) {})
		}, ""},
		{"another location", func(f *dataflow.Flow) {
			_, xs := dataflow.Input[int](dataflow.At[Client](f), "xs")
			keyedstream.Inspect(dataflow.KeyBy(xs, even), func(int) {})
		}, "location 0 was Server, is Client"},
		{"no location", func(*dataflow.Flow) {}, "location Server is missing: this flow has 0 locations, the recorded one had 1"},
	}
	here := recorded(t)
	for _, r := range []*dataflow.Recording{here, loaded(t, here)} {
		for _, test := range tests {
			build := func(s *sim.Sim) {
				test.build(s.Flow())
				s.Start()
			}
			if test.want == "" {
				sim.Rerun(t, r, build)
				continue
			}
			if story := sim.RerunFails(t, r, build); !strings.Contains(story, test.want) || !strings.Contains(story, "does not fit this flow") {
				t.Errorf("%s: the story is\n%s\nwant %q", test.name, story, test.want)
			}
		}
	}
}

// An older has the name of a type of a later program, whose field has another type.
type older struct{ N string }

// TestOtherValues checks that a file is refused if the flow has the same operators but cannot
// decode its records. The message names the step and the operator of the record that does not fit.
func TestOtherValues(t *testing.T) {
	build := func(f *dataflow.Flow) *dataflow.InputPort[older] {
		in, xs := dataflow.Input[older](dataflow.At[Server](f), "xs")
		dataflow.ForEach(xs, func(older) {})
		return in
	}
	var recording dataflow.Recording
	flow := dataflow.NewWithOptions(dataflow.Options{Record: &recording})
	in := build(flow)
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Send(t.Context(), older{"seven"}); err != nil {
		t.Fatal(err)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	type older struct{ N int } // has the same name
	story := sim.RerunFails(t, loaded(t, &recording), func(s *sim.Sim) {
		_, xs := dataflow.Input[older](dataflow.At[Server](s.Flow()), "xs")
		dataflow.ForEach(xs, func(older) {})
		s.Start()
	})
	for _, want := range []string{"step 2 of the recording does not fit this flow", "dataflow.Input xs", "record 0 of 1"} {
		if !strings.Contains(story, want) {
			t.Errorf("the story is\n%s\nwant %q", story, want)
		}
	}
}

// TestFailedStep checks that the recording of a run in which a function panicked includes the step
// that did not end, so that a rerun fails in the same way.
func TestFailedStep(t *testing.T) {
	build := func(f *dataflow.Flow) *dataflow.InputPort[int] {
		in, xs := dataflow.Input[int](dataflow.At[Server](f), "xs")
		dataflow.ForEach(xs, func(x int) {
			if x == 3 {
				panic("three is too many")
			}
		})
		return in
	}
	run := func(t *testing.T, opts dataflow.Options) {
		flow := dataflow.NewWithOptions(opts)
		in := build(flow)
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		for x := range 5 {
			in.Send(t.Context(), x)
		}
		if err := app.Wait(); err == nil || !strings.Contains(err.Error(), "three is too many") {
			t.Fatal(err)
		}
	}
	var inMemory dataflow.Recording
	run(t, dataflow.Options{Record: &inMemory})
	var file bytes.Buffer
	recorder := recordings.NewRecorder(&file)
	run(t, dataflow.Options{Recorder: recorder})
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	fromFile, err := recordings.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range []*dataflow.Recording{&inMemory, loaded(t, &inMemory), fromFile} {
		if r.Steps() != 5 { // the first one runs the operators that depend on constants
			t.Errorf("recording %d has %d steps", i, r.Steps())
		}
		story := sim.RerunFails(t, r, func(s *sim.Sim) {
			build(s.Flow())
			s.Start()
		})
		if !strings.Contains(story, "three is too many") {
			t.Errorf("recording %d: the story is\n%s", i, story)
		}
	}
}

// TestRerunFileCutOff checks that a truncated file is a run up to some step.
func TestRerunFileCutOff(t *testing.T) {
	var b bytes.Buffer
	if _, err := recordings.Write(&b, recorded(t)); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "cut.mrh")
	for cut := range 120 {
		file := b.Bytes()[:b.Len()-cut]
		r, err := recordings.Read(bytes.NewReader(file))
		if err != nil {
			if !strings.Contains(err.Error(), "header") {
				t.Fatal(err)
			}
			continue
		}
		if cut > 0 && r.Note() == "" {
			t.Errorf("nothing is noted of a file without its last %d bytes", cut)
		}
		if err := os.WriteFile(path, file, 0o600); err != nil {
			t.Fatal(err)
		}
		steps := 0
		sim.RerunFile(t, path, func(s *sim.Sim) {
			_, xs := dataflow.Input[int](dataflow.At[Server](s.Flow()), "xs")
			keyedstream.Inspect(dataflow.KeyBy(xs, func(x int) int { return x % 2 }), func(int) { steps++ })
			s.Start()
			s.Quiesce()
		})
		if r.Steps() > 0 && steps != r.Steps()-1 {
			t.Errorf("cut by %d: %d numbers came in %d steps", cut, steps, r.Steps())
		}
	}
}
