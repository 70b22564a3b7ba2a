package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
)

// TestReloadThatCannotStart reloads configurations of which only the start finds out that they cannot be used. The process continues
// with the one before, and takes the next one.
func TestReloadThatCannotStart(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	_, tools := startTool(t)
	dir := t.TempDir()
	api, listen, file := freeAddress(t), freeAddress(t), filepath.Join(dir, "c.json")
	s := &served{t: t, state: filepath.Join(dir, "state"), api: "http://" + api, args: []string{"serve", "--config", file}}
	configure := func(tool, extra string) {
		writeConfig(t, file, fmt.Sprintf(`{"state": %q, "api": {"listen": %q}, "callbacks": {"listen": %q}, "tools": [{"url": %q}]%s}`, s.state, api, listen, tool, extra))
	}
	configure(tools[0], "")
	s.cmd = millrace(t, s.args...)
	said := newWords()
	s.cmd.Stderr = said
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	call := func(id string) {
		t.Helper()
		s.request(ctx, "POST", "/calls", fmt.Sprintf(`{"group_id": "t", "id": %q, "operation": "add", "arguments": {"a": 1, "b": 2}}`, id), http.StatusAccepted)
		s.request(ctx, "GET", "/calls/t/"+id+"?wait=60s", "", http.StatusOK)
	}
	call("first")
	for i, is := range []struct{ tool, extra, want string }{
		{"ftp://x", "", "nothing is changed"}, // nothing has to be started to see that
		{tools[0], `, "mcp": {"a": {"command": ["no-such-program-of-a-test"]}}`, "started again as it was"},
		{tools[0], fmt.Sprintf(`, "monitor": {"listen": %q}`, listen), "started again as it was"},
	} {
		configure(is.tool, is.extra)
		said.until(ctx, t, is.want, func() { s.cmd.Process.Signal(syscall.SIGHUP) })
		call(fmt.Sprint(i))
	}
	configure(tools[0], `, "ask_status": true`)
	said.until(ctx, t, "the configuration has changed", func() { s.cmd.Process.Signal(syscall.SIGHUP) })
	call("last")
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Wait(); err != nil {
		t.Errorf("the process ends with %v", err)
	}
}
