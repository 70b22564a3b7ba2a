package sim

import (
	"os"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
)

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
