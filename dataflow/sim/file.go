package sim

import (
	"os"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
)

// Continue is [Exhaustive] of what can follow a recorded run. Each schedule begins with the steps of
// the recording, which are made when f calls [Sim.Start], and goes on with what f does then. So a
// state that production has come to, in a run that takes too long to explore from its beginning, is
// explored further.
//
// Behind the recorded steps, records that the flow had sent to itself wait to be taken, calls without
// an answer wait to be made, and timers wait to fire. Records that an input had accepted
// and no step had taken are not in a recording. Inputs are open, also those that production had
// closed, and an input that accepts each key once refuses the keys that came. Outputs have all that
// the steps gave.
//
// The flow that f builds has to be the one that was recorded, and its functions have to give what they
// gave, as far as it went round a cycle, to another location or into a call. The test fails
// otherwise, and if the recording is nil. The recorded steps are made again in each execution.
func Continue(t testing.TB, recording *dataflow.Recording, f func(*Sim)) (schedules int) {
	engine.Given("sim.Continue", f)
	t.Helper()
	if recording == nil {
		t.Fatal("sim.Continue: the recording is nil: read one with dataflow.ReadRecording, or use Exhaustive")
	}
	schedules, executions := explore(t, subject{ctx: t.Context(), f: f, from: recording}, false)
	t.Logf("sim: %d schedules in %d executions, each behind %d recorded steps", schedules, executions, recording.Steps())
	return schedules
}

// RerunFile is [Rerun] of a recording in a file, which [dataflow.Recording.WriteTo] or a
// [dataflow.Recorder] has written in this process or in another one. The test fails if
// the file cannot be read, is damaged, or has the history of another flow; the message
// names the byte or the operator then. Of a file whose end is cut off, what is there is
// run, and the test's log says so.
//
// A file in testdata with the run that has failed is a regression test. See
// doc/testing.md for how to make one.
func RerunFile(t *testing.T, path string, f func(*Sim)) {
	engine.Given("sim.RerunFile", f)
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatalf("sim: %v", err)
	}
	recording, err := dataflow.ReadRecording(file)
	file.Close()
	if err != nil {
		t.Fatalf("sim: %s: %v", path, err)
	}
	if note := recording.Note(); note != "" {
		t.Logf("sim: %s: %s", path, note)
	}
	Rerun(t, recording, f)
}
