package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// pidEnv names a file to which each process of these tests adds its process id.
const pidEnv = "MILLRACE_PIDS"

func signPid() error {
	name := os.Getenv(pidEnv)
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, os.Getpid())
	return err
}

// A toolCommand is an example server that a runtime starts.
type toolCommand struct {
	t    *testing.T
	flag string // of --tool-command
	pids string
}

func newToolCommand(t *testing.T, before, rest string) *toolCommand {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := &toolCommand{t: t, pids: filepath.Join(t.TempDir(), "pids")}
	c.flag = fmt.Sprintf("%s %s=1 %s='%s' '%s' tool --port {port} %s", before, actEnv, pidEnv, c.pids, self, rest)
	return c
}

// started returns the process ids of the tool server so far.
func (c *toolCommand) started() (all []int) {
	text, _ := os.ReadFile(c.pids)
	for line := range strings.Lines(string(text)) {
		n, _ := strconv.Atoi(strings.TrimSpace(line))
		all = append(all, n)
	}
	return all
}

// running waits until the n-th process has started and returns its id.
func (c *toolCommand) running(ctx context.Context, n int) int {
	for again := time.NewTicker(10 * time.Millisecond); ; {
		if all := c.started(); len(all) >= n {
			return all[n-1]
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			c.t.Fatalf("the tool server was started %d times, want %d", len(c.started()), n)
		}
	}
}

// wantGone waits until a process has ended.
func (c *toolCommand) wantGone(ctx context.Context, pid int) {
	for again := time.NewTicker(10 * time.Millisecond); ; {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // a zombie has ended, too
		if _, state, _ := strings.Cut(string(stat), ") "); err == nil && strings.HasPrefix(state, "Z") || syscall.Kill(pid, 0) != nil {
			return
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			c.t.Fatalf("the tool server %d is still there", pid)
		}
	}
}

// TestToolCommand checks that a runtime starts its tool server, and starts it again when it is
// killed; a pending call continues. When the runtime is killed, its tool server ends, and the next
// runtime starts one at the same address. The tool server also ends when the runtime stops.
func TestToolCommand(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tools, state := t.TempDir(), t.TempDir()
	c := newToolCommand(t, "", "--state '"+tools+"' slow")
	s := serveRuntime(t, state, nil, "--tool-command", c.flag)
	call := func(id string, ms int) string {
		body := fmt.Sprintf(`{"group_id":"t","id":%q,"operation":"sleep","arguments":{"ms":%d}}`, id, ms)
		s.request(ctx, "POST", "/calls", body, http.StatusAccepted)
		return "/calls/t/" + id
	}
	first := call("c1", 1500)
	syscall.Kill(c.running(ctx, 1), syscall.SIGKILL)
	second := c.running(ctx, 2)
	s.readSlow(ctx, first)

	pending := call("c2", 1500)
	s.kill()
	c.wantGone(ctx, second)
	s.start()
	s.readSlow(ctx, pending)
	s.readSlow(ctx, call("c3", 1500))
	third := c.running(ctx, 3)

	s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the runtime ends with %v", err)
	}
	c.wantGone(ctx, third)
	if n := len(c.started()); n != 3 {
		t.Errorf("the tool server was started %d times, want 3", n)
	}
	var urls map[string]string
	text, err := os.ReadFile(filepath.Join(state, commandURLs))
	if err := json.Unmarshal(text, &urls); err != nil || len(urls) != 1 {
		t.Errorf("the state folder has %s: %v", text, err)
	}
	for _, at := range urls { // from 32768 on, systems use ports for outgoing connections
		if u, err := url.Parse(at); err != nil || len(u.Port()) != 5 || u.Port() >= "32768" {
			t.Errorf("the tool server is at %s, %v: another process may have its port while it is down", at, err)
		}
	}
	if info, _ := os.Stat(filepath.Join(state, commandURLs)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v, %v", info.Mode(), err)
	}
}

// TestToolCommandFails checks that a command that cannot be started ends the runtime, and one that
// exits at once does not. The error names the command.
func TestToolCommandFails(t *testing.T) {
	t.Parallel()
	calls := filepath.Join(t.TempDir(), "calls.jsonl")
	if err := os.WriteFile(calls, []byte(`{"group_id":"t","operation":"echo","arguments":{"text":"hi"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		command string
		status  int
		want    string
	}{
		{"/nowhere/program --port {port}", 1, "/nowhere/program cannot be started"},
		{"program-that-is-not-there {port}", 1, "program-that-is-not-there cannot be started"},
		{`sh -c 'echo port {port} is taken >&2; exit 3'`, 0, "is taken >&2; exit 3 has ended: exit status 3"},
		{"sh -c true", 2, "cannot be told where to listen"},
		{"sh -c 'sleep 1", 2, "has no end"},
		{"http://127.0.0.1:1 A=b", 2, "names no program"},
		{"ftp://127.0.0.1:1 {port}", 1, "cannot be started"},
	}
	for _, test := range tests {
		cmd := millrace(t, "run", "--tool-command", test.command, calls)
		var said bytes.Buffer
		cmd.Stderr = &said
		cmd.Run()
		if status := cmd.ProcessState.ExitCode(); status != test.status || !strings.Contains(said.String(), test.want) {
			t.Errorf("%s: status %d, want %d and %q; it said:\n%s", test.command, status, test.status, test.want, said.String())
		}
	}
}

// TestToolCommandEnvironment checks that a tool server does not receive the key of the model.
func TestToolCommandEnvironment(t *testing.T) {
	t.Setenv(keyEnv, "sk-secret")
	t.Setenv("OTHER", "1")
	var c commandFlags
	if err := c.Set(`http://127.0.0.1:8801/base/ A='b c' "D=e\"f" '/a program' \'x\' "" "y\z" {port}`); err != nil {
		t.Fatal(err)
	}
	got := c.commands()[0]
	if slices.ContainsFunc(got.Env, func(v string) bool { return strings.Contains(v, "sk-secret") }) || !slices.Contains(got.Env, "OTHER=1") {
		t.Errorf("its environment is %q", got.Env)
	}
	if env := got.Env[len(got.Env)-2:]; !slices.Equal(env, []string{"A=b c", `D=e"f`}) {
		t.Errorf("it is given %q", env)
	}
	if want := []string{"/a program", "'x'", "", `y\z`, "{port}"}; !slices.Equal(got.Args, want) || got.URL != "http://127.0.0.1:8801/base" {
		t.Errorf("it is %q at %s, want %q", got.Args, got.URL, want)
	}
}

// TestLines checks that the output of a tool server is shown line by line, however it is split into
// writes.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	l := &lines{to: &out, before: "> "}
	for _, p := range []string{"a", "b\nc\n", "", "\n", strings.Repeat("x", longestLine+1) + "\nend"} {
		if n, err := l.Write([]byte(p)); n != len(p) || err != nil {
			t.Errorf("%q: %d, %v", p, n, err)
		}
	}
	if want := "> ab\n> c\n> \n> " + strings.Repeat("x", longestLine) + "\n> x\n"; out.String() != want {
		t.Errorf("it is %q, want %q", out.String(), want)
	}
}
