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
// killed and started again where a case says so. What is known to fail is in
// testdata/runtime-baseline.txt.
func TestControl(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	known, err := os.Open("testdata/runtime-baseline.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer known.Close()
	baseline, err := conform.ReadBaseline(known)
	if err != nil {
		t.Fatal(err)
	}
	report, err := conform.RunRuntime(t.Context(), conform.RuntimeCommand{
		Args: []string{self, "control"}, Env: []string{actEnv + "=1"},
	}, conform.Options{Run: *runtimeCases, Baseline: baseline})
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := report.WriteTable(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", &table)
	if report.Count("", conform.Failed)+report.Count("", conform.Errored) > 0 {
		t.Error("the runtime does not keep to the protocol")
	}
}
