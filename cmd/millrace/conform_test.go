package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConformTool runs the command against an example server, and checks its report and exit
// status. Package conform tests the results of the cases.
func TestConformTool(t *testing.T) {
	dir := t.TempDir()
	_, urls := startTools(t, "clock")
	baseline, junit := filepath.Join(dir, "baseline"), filepath.Join(dir, "junit.xml")
	if err := os.WriteFile(baseline, []byte("D01 does it any more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		cases  map[string]string
		says   string // on standard error
	}{
		{[]string{"tool", "--url", urls[0], "--json", "--run", "D01|D03|W06", "--junit", junit}, 0, map[string]string{"D01": "pass", "D03": "pass", "W06": "not-applicable"}, ""},
		{[]string{"tool", "--url", urls[0], "--json", "--run", "D01", "--baseline", baseline}, 1, map[string]string{"D01": "unexpected-pass"}, ""},
		{[]string{"tool", "--url", "http://127.0.0.1:1"}, 2, nil, "cannot be reached"},
		{[]string{"tool", "--url", urls[0], "--run", "R01"}, 2, nil, "no case of this side"},
		{[]string{"tool", "--self"}, 2, nil, "agentproto/conform/selftest"},
		{[]string{"tool"}, 2, nil, "--profile"},
		{[]string{"cook"}, 2, nil, "cook"},
	} {
		cmd := millrace(t, append([]string{"conform"}, c.args...)...)
		var out, errs bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errs
		// The exit status is checked below.
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != c.status || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%v: exit status %d, want %d\n%s%s", c.args, got, c.status, &errs, &out)
		}
		if c.cases == nil {
			continue
		}
		var report struct {
			Cases []struct{ ID, Status string }
		}
		if err := json.Unmarshal(out.Bytes(), &report); err != nil || len(report.Cases) != len(c.cases) {
			t.Errorf("%v: %v\n%s", c.args, err, &out)
		}
		for _, x := range report.Cases {
			if x.Status != c.cases[x.ID] {
				t.Errorf("%v: %s is %q, want %q", c.args, x.ID, x.Status, c.cases[x.ID])
			}
		}
	}
	if xml, err := os.ReadFile(junit); err != nil || !strings.Contains(string(xml), `tests="3" failures="0"`) {
		t.Errorf("%v\n%s", err, xml)
	}
}

// TestConformLists checks that the lists are complete.
func TestConformLists(t *testing.T) {
	for what, want := range map[string]int{"cases": 169, "roles": 15} {
		out, err := millrace(t, "conform", what).Output()
		if n := strings.Count(string(out), "\n"); err != nil || n < want {
			t.Errorf("%s: %d lines, %v", what, n, err)
		}
	}
}
