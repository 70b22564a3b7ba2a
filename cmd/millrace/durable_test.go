package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// durableOf runs 'millrace durable' and returns what it says.
func durableOf(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	cmd := millrace(t, append([]string{"durable"}, args...)...)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// TestBackupOfServe looks into the quarantine of a runtime, backs up what it has kept when it was killed, restores it elsewhere, and
// reads the results of its calls there.
func TestBackupOfServe(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	dir := t.TempDir()
	state, backup, restored := filepath.Join(dir, "state"), filepath.Join(dir, "backup"), filepath.Join(dir, "restored")
	s := serveRuntime(t, state, tools)
	const body = `{"group_id":"t","id":"a","operation":"echo","user_id":"ada","arguments":{"text":"the word"}}`
	s.request(t.Context(), "POST", "/calls", body, http.StatusAccepted)
	_, want := s.request(t.Context(), "GET", "/calls/t/a?wait=20s", "", http.StatusOK)
	if said, code := durableOf(t, "check", state); code != 1 || !strings.Contains(said, "is locked") {
		t.Errorf("check of a folder in use: %d: %s", code, said)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{nil, 0, "partition  record"},
		{[]string{"list"}, 0, "partition  record"},
		{[]string{"retry", "0", "7"}, 1, "there is no such record in the quarantine"},
		{[]string{"drop", "0", "7"}, 1, "there is no such record in the quarantine"},
		{[]string{"drop", "0"}, 2, "usage"},
		{[]string{"drop", "0", "x"}, 2, "usage"},
	} {
		args := append(append([]string{"quarantine"}, c.args...), "--api", s.api, "--state", state)
		if said, code := durableOf(t, args...); code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%v: %d: %s", args, code, said)
		}
	}
	s.kill()
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"check", state}, 0, "everything fits together"},
		{[]string{"backup", state, "--to", backup}, 0, "as the history "},
		{[]string{"backup", state, "--to", backup}, 1, "there is a history already"},
		{[]string{"check", backup}, 0, "everything fits together"},
		{[]string{"check", dir}, 1, "no history"},
		{[]string{"restore", backup, "--state", restored}, 0, "as the history "},
		{[]string{"verify", "--state", restored}, 0, "gave what they gave"},
		{[]string{"restore", backup, "--disk", filepath.Join(dir, "other")}, 0, "as the history "},
		{[]string{"restore"}, 2, "which folder"},
		{[]string{"backup", state}, 2, "--to"},
		{[]string{"nothing"}, 2, "usage"},
	} {
		if said, code := durableOf(t, c.args...); code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%v: %d: %s", c.args, code, said)
		}
	}
	key, err := os.ReadFile(filepath.Join(state, "callback.key")) // of callback URLs, which is no part of the history
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(restored, "callback.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	again := serveRuntime(t, restored, tools)
	if _, is := again.request(t.Context(), "GET", "/calls/t/a?wait=20s", "", http.StatusOK); string(is) != string(want) {
		t.Errorf("the result is %s, and was %s", is, want)
	}
}
