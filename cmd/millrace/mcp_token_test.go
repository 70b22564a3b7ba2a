package main

import (
	"bufio"
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestMCPWrongToken checks that 'millrace mcp' ends at once and says what to do if the runtime does not accept its token. If the
// token becomes wrong later, the client gets an error, and the reason is on standard error.
func TestMCPWrongToken(t *testing.T) {
	t.Parallel()
	wrong := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(wrong, []byte(newToken()), 0o600); err != nil {
		t.Fatal(err)
	}
	_, urls := startTool(t)
	s := serveRuntime(t, t.TempDir(), urls)
	s.request(t.Context(), "GET", "/stats", "", http.StatusOK)
	const advice = "does not accept the token"
	cmd := millrace(t, "mcp", "--api", s.api, "--token-file", wrong)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), advice) || !strings.Contains(string(out), "--token-file") {
		t.Errorf("%v: %s", err, out)
	}
	s.kill()
	front := &overStdio{cmd: millrace(t, "mcp", "--api", s.api, "--token-file", wrong)}
	var said bytes.Buffer
	front.cmd.Stderr = &said
	if front.in, err = front.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	pipe, err := front.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	front.out = bufio.NewReader(pipe)
	if err := front.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(front.kill)
	if a, err := front.say(t.Context(), 1, "ping", map[string]any{}); err != nil { // it has started without the runtime
		t.Fatalf("ping: %v, %+v", err, a)
	}
	s.start()
	if a, err := front.say(t.Context(), 2, "tools/list", map[string]any{}); err != nil || a.Error == nil {
		t.Errorf("tools/list: %v, %+v", err, a)
	}
	front.in.Close()
	if err := front.cmd.Wait(); err != nil || !strings.Contains(said.String(), advice) {
		t.Errorf("it ends with %v and says %q", err, said.String())
	}
}
