package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// TestBackupOfRunning backs up a runtime while it makes calls, kills it, and restores the backup elsewhere. The results of
// all calls that were answered before the backup can be read there.
func TestBackupOfRunning(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	dir := t.TempDir()
	state, backups, restored := filepath.Join(dir, "state"), filepath.Join(dir, "backups"), filepath.Join(dir, "restored")
	at, without := freeAddress(t), freeAddress(t)
	s := serveRuntime(t, state, tools, "--monitor", at, "--backups", backups)
	other := serveRuntime(t, filepath.Join(dir, "other"), tools, "--monitor", without)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	const answered = 20
	texts := make([]string, answered)
	for i := range texts {
		texts[i] = s.makeCall(ctx, i)
	}
	calling, enough := context.WithCancel(ctx)
	var callers sync.WaitGroup
	for c := range 4 {
		callers.Go(func() {
			for i := 1000 * (c + 1); calling.Err() == nil; i++ {
				s.makeCall(ctx, i)
			}
		})
	}
	said, code := durableOf(t, "backup", "--monitor", "http://"+at)
	enough()
	callers.Wait()
	_, where, ok := strings.Cut(said, "copied to ")
	made, _, _ := strings.Cut(where, ", as the history ")
	if code != 0 || !ok || filepath.Dir(made) != backups {
		t.Fatalf("%d: %s", code, said)
	}
	other.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound) // waits until it is up
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"check", made}, 0, "everything fits together"},
		{[]string{"check", state}, 1, "is locked"},
		{[]string{"backup", "--monitor", "http://" + without}, 1, "start 'millrace serve' with --backups"},
		{[]string{"backup", "--monitor", "http://" + at, "--to", backups}, 2, "give nothing else"},
		{[]string{"backup", made, "--monitor", "http://" + at}, 2, "give nothing else"},
		{[]string{"restore", made, "--state", restored}, 0, "as the history "},
	} {
		if said, code := durableOf(t, c.args...); code != c.code || !strings.Contains(said, c.want) {
			t.Errorf("%v: %d: %s", c.args, code, said)
		}
	}
	entries, err := os.ReadDir(backups)
	if err != nil || len(entries) != 1 {
		t.Errorf("there is %v: %v", entries, err)
	}
	s.kill()
	if said, code := durableOf(t, "backup", "--monitor", "http://"+at); code != 1 || !strings.Contains(said, "is 'millrace serve' running") {
		t.Errorf("of a process that was killed: %d: %s", code, said)
	}
	key, err := os.ReadFile(filepath.Join(state, "callback.key"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(restored, "callback.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	again := serveRuntime(t, restored, tools)
	again.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
	for i, want := range texts {
		if is := again.readResult(ctx, i); is != want {
			t.Errorf("call %d has the result %q, and had %q", i, is, want)
		}
	}
}

// TestBackupsNeedMonitor expects an error for a bad command line, and for a folder that cannot be created.
func TestBackupsNeedMonitor(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--backups", "x"}, 2, "--backups needs --monitor"},
		{[]string{"--backups", file, "--monitor", "127.0.0.1:0"}, 1, file},
	} {
		cmd := millrace(t, append([]string{"serve", "--state", filepath.Join(t.TempDir(), "state"), "--tool", "http://127.0.0.1:1"}, c.args...)...)
		out, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code || !strings.Contains(string(out), c.want) {
			t.Errorf("%v: %d: %s", c.args, code, fmt.Sprintf("%.300s", out))
		}
	}
}
