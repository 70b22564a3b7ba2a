package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// logOf runs 'millrace log' and returns its output and exit status.
func logOf(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := millrace(t, append([]string{"log"}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run()
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// readLog is logOf for a command that must succeed.
func readLog(t *testing.T, args ...string) string {
	t.Helper()
	out, errs, code := logOf(t, args...)
	if code != 0 {
		t.Fatalf("millrace log %s: exit %d: %s", strings.Join(args, " "), code, errs)
	}
	return out
}

// terminate stops the runtime with SIGTERM.
func (s *served) terminate() {
	s.t.Helper()
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		s.t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Errorf("stopped: %v", err)
	}
}

var stepLine = regexp.MustCompile(`(?m)^step (\d+) at `)

// TestLogOfServe reads histories of real runtimes with the options that shape their flows, killed
// and stopped, with each kind of traffic.
func TestLogOfServe(t *testing.T) {
	t.Parallel()
	_, tools := startTools(t, "clock", "slow", "feed")
	tools = append(tools, startAccount(t))
	dir := t.TempDir()
	script := filepath.Join(dir, "script.json")
	text := `[{"text":"I ask.","calls":[{"id":"m1","operation":"echo","arguments":{"text":"from the model"}}]},{"text":"so be it","times":100}]`
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	variants := map[string][]string{
		"plain":     nil,
		"kept":      {"--keep-for", "forever"},
		"model":     {"--model", "script:" + script},
		"migration": {"--migration-key", filepath.Join(dir, "shared.key"), "--timeout", "7m"},
		"all":       {"--model", "script:" + script, "--migration-key", filepath.Join(dir, "shared.key"), "--ask-status", "--keep-for", "72h", "--timeout", "1h"},
	}
	for name, options := range variants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := filepath.Join(t.TempDir(), "state")
			s := serveRuntime(t, state, tools, options...)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s.traffic(ctx, "before", strings.Contains(strings.Join(options, " "), "--model"))
			s.kill()
			first := checkLog(t, state, "before")
			s.start()
			s.traffic(ctx, "after", false)
			s.terminate()
			second := checkLog(t, state, "after")
			s.start()
			s.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
			s.kill()
			checkLog(t, state, "after")
			if kept := strings.Contains(strings.Join(options, " "), "--keep-for"); kept && second <= first {
				t.Errorf("%d steps are shown, and %d of them were there before", second, first)
			}
		})
	}
}

// traffic makes one call of each kind. Their results contain the word.
func (s *served) traffic(ctx context.Context, word string, model bool) {
	s.t.Helper()
	call := func(id, operation, arguments string) {
		body := fmt.Sprintf(`{"group_id":"t","id":"%s-%s","operation":%q,"user_id":"ada","arguments":%s}`, word, id, operation, arguments)
		s.request(ctx, "POST", "/calls", body, http.StatusAccepted)
	}
	result := func(id string) {
		s.request(ctx, "GET", fmt.Sprintf("/calls/t/%s-%s?wait=20s", word, id), "", http.StatusOK)
	}
	call("echo", "echo", fmt.Sprintf(`{"text":"the word is %s"}`, word))
	call("fail", "fail", `{"reason":"it has to"}`)
	call("rejected", "nosuch", `{}`)
	call("sleep", "sleep", `{"ms":600000}`)
	call("tick", "tick", `{"ms":20}`)
	call("progress", "progress", `{"ms":50}`)
	call("choice", "order", `{"items":["tea","cake"]}`)
	call("oauth", "whoami", `{}`)
	for _, id := range []string{"echo", "fail", "rejected", "tick"} {
		result(id)
	}
	var prompts []struct{ ID string }
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for ctx.Err() == nil && len(prompts) < 2 {
		_, text := s.request(ctx, "GET", "/threads/t/prompts", "", http.StatusOK)
		if err := json.Unmarshal(text, &prompts); err != nil {
			s.t.Fatalf("%v: %s", err, text)
		}
		<-again.C
	}
	s.request(ctx, "POST", "/threads/t/answers", fmt.Sprintf(`{"id":"%s-choice","selected":1}`, word), http.StatusAccepted, http.StatusNoContent, http.StatusOK)
	result("choice")
	s.request(ctx, "DELETE", fmt.Sprintf("/calls/t/%s-sleep", word), "", http.StatusOK, http.StatusAccepted, http.StatusNoContent)
	result("sleep")
	if model {
		s.request(ctx, "POST", "/sessions", `{"id":"s","user_id":"ada"}`, http.StatusCreated)
		s.request(ctx, "POST", "/threads/s/messages", `{"text":"go","key":"go"}`, http.StatusAccepted)
		for ctx.Err() == nil {
			if _, text := s.request(ctx, "GET", "/threads/s/messages?wait=20s", "", http.StatusOK); strings.Contains(string(text), "so be it") {
				break
			}
		}
		s.request(ctx, "DELETE", "/threads/s", "", http.StatusOK, http.StatusAccepted, http.StatusNoContent)
	}
}

// checkLog lists, shows and replays a history and ranges of its steps, and returns the number of
// steps.
func checkLog(t *testing.T, state, word string) int {
	t.Helper()
	for _, what := range []string{"check", "verify"} {
		cmd := millrace(t, "durable", what, "--state", state)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("millrace durable %s: %v: %s", what, err, out)
		}
	}
	if out := readLog(t, "list", "--state", state); !regexp.MustCompile(`(?m)^ +0 +\d+ +\d+ +\d+ +[1-9]`).MatchString(out) {
		t.Errorf("list says %q", out)
	}
	shown := readLog(t, "show", "--state", state)
	var steps []string
	for _, m := range stepLine.FindAllStringSubmatch(shown, -1) {
		steps = append(steps, m[1])
	}
	if len(steps) == 0 {
		t.Fatalf("no step is shown: %q", shown)
	}
	all := readLog(t, "replay", "--state", state, "--most", "-1")
	if !strings.Contains(all, "the word is "+word) {
		t.Errorf("the replay does not know the result of the call: %s", all)
	}
	first, middle, last := steps[0], steps[len(steps)/2], steps[len(steps)-1]
	if out := readLog(t, "replay", "--state", state, "--to", last, "--most", "-1"); out != all {
		t.Errorf("a replay to the last step gives something else than one of everything")
	}
	some := readLog(t, "show", "--state", state, "--from", middle, "--to", last)
	if n := len(stepLine.FindAllString(some, -1)); n != len(steps)-len(steps)/2 || !strings.HasSuffix(shown, some) {
		t.Errorf("steps %s to %s: %d are shown of %d", middle, last, n, len(steps))
	}
	if out, errs, code := logOf(t, "replay", "--state", state, "--to", first); code != 0 && !strings.Contains(errs, "keep it with") {
		t.Errorf("replay to %s: exit %d: %s%s", first, code, out, errs)
	}
	if _, errs, code := logOf(t, "replay", "--state", state, "--to", "99999999"); code != 1 || !strings.Contains(errs, "its last one is "+last) {
		t.Errorf("replay beyond the end: exit %d: %s", code, errs)
	}
	return len(steps)
}

// TestLogOfNothing checks the error where there is no history, and that none is created.
func TestLogOfNothing(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	dir := t.TempDir()
	served := serveRuntime(t, filepath.Join(dir, "served"), tools)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	served.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
	stopped := serveRuntime(t, filepath.Join(dir, "stopped"), tools)
	stopped.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
	stopped.terminate()
	for _, name := range []string{"empty", "bare/history", "closed/history/jetstream"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"file", "filed/history"} {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		state, want string
		more        []string
	}{
		{"none", "there is no such directory", nil},
		{"none/deeper", "there is no such directory", nil},
		{"empty", "there is no such directory", nil},
		{"bare", "nothing was ever kept there", nil},
		{"file", "not a directory", nil},
		{"filed", "not a directory", nil},
		{"served", "a process runs on", nil},
		{"stopped", `of the name "other"`, []string{"--name", "other"}},
		{"stopped", `there is "millrace"`, []string{"--name", "other"}},
		{"stopped", "letters, digits", []string{"--name", "a.b"}},
		{"stopped", "no partition 1", []string{"--partition", "1"}},
	}
	if os.Getuid() != 0 { // root can read everything
		os.Chmod(filepath.Join(dir, "closed/history/jetstream"), 0)
		t.Cleanup(func() { os.Chmod(filepath.Join(dir, "closed/history/jetstream"), 0o700) })
		tests = append(tests, struct {
			state, want string
			more        []string
		}{"closed", "permission denied", nil})
	}
	before := files(t, dir)
	for _, test := range tests {
		for _, what := range []string{"list", "show", "replay"} {
			out, errs, code := logOf(t, append([]string{what, "--state", filepath.Join(dir, test.state)}, test.more...)...)
			if code != 1 || !strings.Contains(errs, test.want) || out != "" {
				t.Errorf("log %s of %s: exit %d, %q, %q; want %q", what, test.state, code, out, errs, test.want)
			}
		}
	}
	if after := files(t, dir); after != before {
		t.Errorf("files before:\n%s\nand after:\n%s", before, after)
	}
}

// files returns the names of all files in a folder except those of a server.
func files(t *testing.T, dir string) string {
	t.Helper()
	var names strings.Builder
	err := filepath.WalkDir(dir, func(name string, d os.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "streams" || d.Name() == "jetstream") {
			return filepath.SkipDir
		}
		fmt.Fprintln(&names, name)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names.String()
}

// TestLogOfManyCalls reads a history whose steps before its latest snapshots are gone, and one
// that is complete.
func TestLogOfManyCalls(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	for _, keep := range []bool{false, true} {
		t.Run(fmt.Sprint("keep=", keep), func(t *testing.T) {
			t.Parallel()
			state := t.TempDir()
			s := serveRuntime(t, state, tools, "--keep-for", map[bool]string{false: "0", true: "forever"}[keep])
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			const calls = 60
			long := strings.Repeat("0123456789", 20_000)
			for i := range calls {
				body := fmt.Sprintf(`{"group_id":"t","id":"c%d","operation":"echo","arguments":{"text":"%d %s"}}`, i, i, long)
				s.request(ctx, "POST", "/calls", body, http.StatusAccepted)
				s.request(ctx, "GET", fmt.Sprintf("/calls/t/c%d?wait=20s", i), "", http.StatusOK)
			}
			s.kill()
			list := strings.Fields(strings.Split(readLog(t, "list", "--state", state), "\n")[1])
			if list[5] == "0" {
				t.Errorf("no snapshot was made: %v", list)
			}
			shown := stepLine.FindAllStringSubmatch(readLog(t, "show", "--state", state), -1)
			if keep != (shown[0][1] == "1") {
				t.Errorf("the first step is %s", shown[0][1])
			}
			all := readLog(t, "replay", "--state", state, "--most", "-1")
			if !strings.Contains(all, fmt.Sprintf("%d 0123456789", calls-1)) {
				t.Error("the last result is not in the replay")
			}
			if n := strings.Count(all, ", which is no longer kept]"); n < calls/2 {
				t.Errorf("%d results are no longer kept, of %d with 12 MB", n, calls)
			}
			if keep { // the beginning exists, so every step can be replayed, also before the snapshot
				for i := 1; i < len(shown); i += len(shown) / 10 {
					readLog(t, "replay", "--state", state, "--to", shown[i][1])
				}
			}
		})
	}
}
