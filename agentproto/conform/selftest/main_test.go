package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMain lets the test binary also act as the servers under test.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == serveFlag {
		main()
		return
	}
	os.Exit(m.Run())
}

// TestSelf runs some cases against our own server, in processes, and checks the report and
// the exit status. Package conform tests what the report says about every case.
func TestSelf(t *testing.T) {
	dir := t.TempDir()
	baseline, junit := filepath.Join(dir, "baseline"), filepath.Join(dir, "junit.xml")
	if err := os.WriteFile(baseline, []byte("W06 does it any more\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		status int
		cases  map[string]string
		says   string
	}{
		{[]string{"-json", "-run", "D01|D02|W06", "-junit", junit}, 0, map[string]string{"D01": "pass", "D02": "pass", "W06": "pass"}, ""},
		{[]string{"-json", "-run", "W06", "-baseline", baseline}, 1, map[string]string{"W06": "unexpected-pass"}, ""},
		{[]string{"-run", "R01"}, 2, nil, "no case of this side"},
		{[]string{"-cook"}, 2, nil, ""},
	} {
		var out, errs bytes.Buffer
		status, err := run(t.Context(), c.args, &out, &errs)
		if status != c.status || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%v: exit status %d, want %d: %v\n%s%s", c.args, status, c.status, err, &errs, &out)
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
