package main

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// durableOf runs 'millrace durable' and returns its output and exit status.
func durableOf(t *testing.T, args ...string) (said string, code int) {
	t.Helper()
	cmd := millrace(t, append([]string{"durable"}, args...)...)
	out, _ := cmd.CombinedOutput()
	return string(out), cmd.ProcessState.ExitCode()
}

// TestSalvageOfServe flips a bit in the inputs of a killed runtime, accepts the loss, and continues with the
// rest.
func TestSalvageOfServe(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	dir := t.TempDir()
	state, left, restored := filepath.Join(dir, "state"), filepath.Join(dir, "left"), filepath.Join(dir, "restored")
	s := serveRuntime(t, state, tools)
	call := func(s *served, id string) {
		s.request(t.Context(), "POST", "/calls", `{"group_id":"t","id":"`+id+`","operation":"echo","user_id":"ada","arguments":{"text":"the word"}}`, http.StatusAccepted)
		s.request(t.Context(), "GET", "/calls/t/"+id+"?wait=20s", "", http.StatusOK)
	}
	for _, id := range []string{"a", "b", "c"} {
		call(s, id)
	}
	s.kill()
	found, err := filepath.Glob(filepath.Join(state, "history", "jetstream", "*", "streams", "IN_*", "msgs", "1.blk"))
	if err != nil || len(found) != 1 {
		t.Fatal(found, err)
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)/2] ^= 4
	if err := os.WriteFile(found[0], data, 0o600); err != nil {
		t.Fatal(err)
	}
	said, code := durableOf(t, "check", state)
	token := regexp.MustCompile("with the token ([0-9a-f]{8})").FindStringSubmatch(said)
	if code != 1 || token == nil {
		t.Fatalf("check: %d: %s", code, said)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"salvage", state}, 2, "--to"},
		{[]string{"salvage", state, "--to", left}, 1, "would be left out, with the token " + token[1]},
		{[]string{"salvage", state, "--to", left, "--accept-loss", "01234567"}, 1, "with the token " + token[1]},
		{[]string{"salvage", state, "--to", left, "--accept-loss", token[1]}, 0, "is left out, with the token " + token[1]},
		{[]string{"check", left}, 0, "everything fits together"},
		{[]string{"restore", left, "--state", restored}, 0, "as the history "},
	} {
		if said, code := durableOf(t, c.args...); code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%v: %d: %s", c.args, code, said)
		}
	}
	copyKey(t, state, restored)
	call(serveRuntime(t, restored, tools), "d")
}

// copyKey copies the key of callback URLs, which is not part of the history.
func copyKey(t *testing.T, from, to string) {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(from, "callback.key"))
	if err == nil {
		err = os.WriteFile(filepath.Join(to, "callback.key"), key, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestBackupOfServe lists the quarantine of a runtime, kills the runtime, backs up its state, and restores it elsewhere. The
// results of its calls can be read there.
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
	copyKey(t, state, restored)
	again := serveRuntime(t, restored, tools)
	if _, is := again.request(t.Context(), "GET", "/calls/t/a?wait=20s", "", http.StatusOK); string(is) != string(want) {
		t.Errorf("the result is %s, and was %s", is, want)
	}
}
