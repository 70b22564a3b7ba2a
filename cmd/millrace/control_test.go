package main

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/millrace/millrace/agentproto/conform"
)

var runtimeCases = flag.String("runtime-cases", "", "the cases of TestControl, a regular expression; all if empty")

// TestControl runs every conformance case of the runtime against our own runtime, as a process
// that is killed and restarted where a case requires it.
func TestControl(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	report, err := conform.RunRuntime(t.Context(), conform.RuntimeCommand{
		Args: []string{self, "control"}, Env: []string{actEnv + "=1"},
	}, conform.Options{Run: *runtimeCases})
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &table)
	if !report.OK() {
		t.Error("the runtime does not keep to the protocol")
	}
	for _, r := range report.Results {
		// Our runtime implements the whole control interface.
		if r.Status == conform.Inapplicable {
			t.Errorf("case %s is not applicable: %s", r.ID, r.Reason)
		}
	}
}
