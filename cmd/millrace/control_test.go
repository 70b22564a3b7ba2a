package main

import (
	"bytes"
	"flag"
	"os"
	"testing"

	"github.com/millrace/millrace/agentproto/conform"
)

var runtimeCases = flag.String("runtime-cases", "", "the cases of TestControl, a regular expression; all if empty")

// TestControl has our runtime keep to the protocol, case by case, as a process that is
// killed and started again where a case says so.
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
		// Ours has all parts of the control interface.
		if r.Status == conform.Inapplicable {
			t.Errorf("case %s is not applicable: %s", r.ID, r.Reason)
		}
	}
}
