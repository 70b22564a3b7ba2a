package sim

import (
	"os"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/recordings"
	"github.com/millrace/millrace/internal/engine"
)

// Continue is [Exhaustive] for what can follow a recorded run. Each schedule begins with the steps of
// the recording, which are made when f calls [Sim.Start], and continues with what f does then. This
// explores a state of production that would take too long to reach by exploring from the beginning.
//
// After the recorded steps, records that the flow had sent to itself wait to be taken, calls without
// an answer wait to be made, and timers wait to fire. A recording does not contain records that an
// input had accepted but no step had taken. Inputs are open, including those that production had
// closed. An input that accepts each key once refuses the recorded keys. Outputs hold everything that
// the steps emitted.
//
// The flow that f builds must be the recorded one, and its functions must return what they returned
// then, as far as it went round a cycle, to another location or into a call. Otherwise the test fails.
// It also fails if the recording is nil. The recorded steps are made again in each execution.
func Continue(t testing.TB, recording *dataflow.Recording, f func(*Sim)) (schedules int) {
	engine.Given("sim.Continue", f)
	t.Helper()
	if recording == nil {
		t.Fatal("sim.Continue: the recording is nil: read one with recordings.Read, or use Exhaustive")
	}
	schedules, executions := explore(t, subject{ctx: t.Context(), f: f, from: recording}, false)
	t.Logf("sim: %d schedules in %d executions, each behind %d recorded steps", schedules, executions, recording.Steps())
	return schedules
}

// RerunFile is [Rerun] for a recording in a file, written by [recordings.Write] or a
// [dataflow.Recorder] in this process or another one. The test fails if the file cannot be read, is
// damaged, or holds the history of another flow; the message names the byte or the operator. If the
// end of the file is missing, RerunFile runs what is left and says so in the test's log.
//
// A file in testdata with a failed run is a regression test. See doc/testing.md for how to make one.
func RerunFile(t *testing.T, path string, f func(*Sim)) {
	engine.Given("sim.RerunFile", f)
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatalf("sim: %v", err)
	}
	recording, err := recordings.Read(file)
	file.Close()
	if err != nil {
		t.Fatalf("sim: %s: %v", path, err)
	}
	if note := recording.Note(); note != "" {
		t.Logf("sim: %s: %s", path, note)
	}
	Rerun(t, recording, f)
}
