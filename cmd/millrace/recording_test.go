package main

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/recordings"
	"github.com/millrace/millrace/keyedsingleton"
)

type till struct{ dataflow.Process }

// A sale is an input of a recorded flow.
type sale struct {
	Item string
	Left []byte
}

// recordedFile returns a file with the run of a flow. The flow has failed if fail is set.
func recordedFile(t *testing.T, fail bool) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.mrh")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	recorder := recordings.NewRecorder(file)
	flow := dataflow.NewWithOptions(dataflow.Options{Recorder: recorder})
	in, sales := keyedsingleton.Input[int, sale](dataflow.At[till](flow), "sales")
	keyedsingleton.Inspect(sales, func(s sale) {
		if s.Item == "tea" && fail {
			panic("no tea")
		}
	})
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for i, item := range []string{"milk", "step 9 of till\n", "tea"} {
		in.Put(t.Context(), i, sale{item, []byte{byte(i)}})
	}
	if err := app.Stop(t.Context()); (err != nil) != fail {
		t.Fatal(err)
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

// historyOf runs 'millrace history' and returns its output and exit status.
func historyOf(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := millrace(t, append([]string{"history"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// TestHistory reads recordings as a user does: a complete one, one of a failed flow, one cut off, one
// damaged at a byte, and a file that is no recording.
func TestHistory(t *testing.T) {
	t.Parallel()
	path, failed := recordedFile(t, false), recordedFile(t, true)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := func(name string, content []byte) string {
		at := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(at, content, 0o600); err != nil {
			t.Fatal(err)
		}
		return at
	}
	cut := other("cut.mrh", whole[:len(whole)-3])
	flipped := bytes.Clone(whole)
	flipped[len(whole)/2] ^= 4 // in the header
	damaged := other("damaged.mrh", flipped)
	tests := []struct {
		args []string
		code int
		want []string // patterns of the output
		not  string
	}{
		{args: []string{"info", path}, want: []string{`4 steps`, `location till: 4 steps`, `0  keyedsingleton.Input sales \(recording_test.go:\d+\), took 3 of int and main.sale`, `1  keyedsingleton.Inspect`, `the flow ended`}},
		{args: []string{"steps", path}, want: []string{`(?m)^step 0 of till, starts at 20`, `(?m)^step 2 of till$`, `(?m)^  keyedsingleton.Input sales: 1: \{.*"Item": "step 9 of till\\n"`, `"Left": h'02'`, `the flow ended`}, not: `(?m)^step 9`},
		{args: []string{"steps", path, "--from", "3", "--location", "till"}, want: []string{`step 3 of till`}, not: `step [012]`},
		{args: []string{"steps", "--to", "1", path}, want: []string{`step 1 of till`}, not: `step [23]`},
		{args: []string{"steps", path, "--most", "0"}, want: []string{`Input sales: 1 more`}, not: "milk"},
		{args: []string{"steps", path, "--location", "shop"}, code: 1, want: []string{`no location "shop"`}},
		{args: []string{"check", path}, want: []string{`4 steps`, `the flow ended`}},
		{args: []string{"info", failed}, want: []string{`4 steps`, `the flow failed: .*no tea`}},
		{args: []string{"steps", cut}, want: []string{`step 3 of till`, `the frame at byte \d+ is cut off`}},
		{args: []string{"check", cut}, code: 1, want: []string{`4 steps`, `the frame at byte \d+ is cut off`}},
		{args: []string{"check", damaged}, code: 1, want: []string{`damaged.mrh: history: at byte 4: .*damaged`}},
		{args: []string{"info", damaged}, code: 1, want: []string{`at byte 4`}},
		{args: []string{"info", other("empty.mrh", nil)}, code: 1, want: []string{`the file is empty`}},
		{args: []string{"check", other("x.zip", []byte("PK\x03\x04"))}, code: 1, want: []string{`it is no history`}},
		{args: []string{"check", filepath.Join(t.TempDir(), "none")}, code: 1, want: []string{`no such file`}},
		{args: []string{"check"}, code: 2, want: []string{`which FILE\?`}},
		{args: []string{"check", path, path}, code: 2, want: []string{`what is`}},
		{args: []string{"play", path}, code: 2, want: []string{`info, steps, check or export\?`}},
		{args: nil, code: 2, want: []string{`info, steps, check or export\?`}},
	}
	for _, test := range tests {
		out, errs, code := historyOf(t, test.args...)
		if code != test.code {
			t.Errorf("millrace history %s: exit %d, want %d\n%s%s", strings.Join(test.args, " "), code, test.code, out, errs)
		}
		for _, want := range test.want {
			if !regexp.MustCompile(want).MatchString(out + errs) {
				t.Errorf("millrace history %s: no %s in\n%s%s", strings.Join(test.args, " "), want, out, errs)
			}
		}
		if test.not != "" && regexp.MustCompile(test.not).MatchString(out) {
			t.Errorf("millrace history %s: there is %s in\n%s", strings.Join(test.args, " "), test.not, out)
		}
	}
}

// TestHistoryExport exports the history of a runtime to a file that is complete and contains the inputs.
// It creates no file if that is not possible.
func TestHistoryExport(t *testing.T) {
	t.Parallel()
	_, tools := startTools(t, "clock", "slow", "feed")
	folder := t.TempDir()
	state := filepath.Join(folder, "state")
	s := serveRuntime(t, state, tools, "--keep-for", "forever")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "POST", "/calls", `{"group_id":"t","id":"c","operation":"echo","user_id":"ada","arguments":{"text":"the word is export"}}`, http.StatusAccepted)
	s.request(ctx, "GET", "/calls/t/c?wait=20s", "", http.StatusOK)
	s.terminate()
	path := filepath.Join(folder, "run.mrh")
	if out, errs, code := historyOf(t, "export", path, "--state", state); code != 0 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v", info, err)
	}
	if out, errs, code := historyOf(t, "check", path); code != 0 {
		t.Errorf("check: exit %d: %s%s", code, out, errs)
	}
	if out, errs, code := historyOf(t, "steps", path, "--most", "-1"); code != 0 || !strings.Contains(out, "step 0 of ") || !strings.Contains(out, `"c"`) {
		t.Errorf("steps: exit %d: %s%s", code, out, errs)
	}
	for name, args := range map[string][]string{
		"there is a file":        {"export", path, "--state", state},
		"there is no such":       {"export", filepath.Join(folder, "no.mrh"), "--state", state, "--partition", "99"},
		"no history":             {"export", filepath.Join(folder, "no.mrh"), "--state", filepath.Join(folder, "none")},
		"a step that is not":     {"export", filepath.Join(folder, "no.mrh"), "--state", state, "--to", "999999"},
		"neither state nor nats": {"export", filepath.Join(folder, "no.mrh")},
	} {
		if out, _, code := historyOf(t, args...); code == 0 {
			t.Errorf("%s: exit 0: %s", name, out)
		}
	}
	if _, err := os.Stat(filepath.Join(folder, "no.mrh")); err == nil {
		t.Error("a file was left of what could not be exported")
	}
}
