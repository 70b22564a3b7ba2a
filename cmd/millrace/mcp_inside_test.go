package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestMT31_RuntimeInside runs 'millrace mcp' with a runtime inside. Its tasks survive a kill. A second process for the folder
// exits with 2 and says what to do. When the client goes, both the front and the runtime end (MT30, MT31).
func TestMT31_RuntimeInside(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	url, runs := counting(t)
	state := t.TempDir()
	args := []string{"--state", state, "--", "--tool", url, "--listen", freeAddress(t), "--api", freeAddress(t)}
	first := startMCPWith(t, args...)
	made, err := first.say(ctx, 1, "tools/call", map[string]any{"name": "count", "arguments": map[string]any{"n": 9}})
	if err != nil || made.Result.TaskID == "" {
		t.Fatalf("tools/call: %v, %+v", err, made)
	}

	for _, elsewhere := range [][]string{args, {"--state", state, "--", "--tool", url, "--listen", freeAddress(t), "--api", freeAddress(t)}} {
		second := millrace(t, append([]string{"mcp"}, elsewhere...)...)
		var said bytes.Buffer
		second.Stderr = &said
		if _, err := second.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		out, err := second.Output()
		if exit, ok := err.(*exec.ExitError); !ok || exit.ExitCode() != 2 || !strings.Contains(said.String(), "use it: millrace mcp --api http://") || len(out) > 0 {
			t.Errorf("a second one for the folder: %v, %q, %q", err, out, said.String())
		}
	}

	first.kill()
	again := startMCPWith(t, args...)
	a, err := until(ctx, func() speaker { return again }, "tasks/get", map[string]any{"taskId": made.Result.TaskID}, func(a *mcpAnswer) bool {
		return a.Error != nil && a.Error.Code == -32602 || a.Result.Status == "completed"
	})
	if err != nil || a.Error != nil || !strings.Contains(string(a.Result.Result), `"9"`) || runs(9) != 1 {
		t.Errorf("after a kill: %v, %+v, run %d times", err, a, runs(9))
	}
	again.in.Close()
	if err := again.cmd.Wait(); err != nil {
		t.Errorf("the client has gone, and it ends with %v", err)
	}
	last := startMCPWith(t, args...) // the folder is free again
	if a, err := last.say(ctx, 1, "tools/list", map[string]any{}); err != nil || a.Error != nil {
		t.Errorf("the next one: %v, %+v", err, a)
	}
}

// TestMCPInsideFreePort checks that a runtime inside that listens on a port of its choice is reached.
func TestMCPInsideFreePort(t *testing.T) {
	t.Parallel()
	_, urls := startTool(t)
	front := startMCPWith(t, "--state", t.TempDir(), "--", "--tool", urls[0], "--listen", "127.0.0.1:0", "--api", "127.0.0.1:0")
	a, err := front.say(t.Context(), 1, "tools/call", map[string]any{"name": "echo", "arguments": map[string]any{"text": "x"}})
	if err != nil || a.Error != nil {
		t.Errorf("%v, %+v", err, a)
	}
}

// TestMCPInsideMisused checks that a wrong command line exits with 2 and makes no folder.
func TestMCPInsideMisused(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--state", "x", "more"}, {"--", "--tool", "http://127.0.0.1:1"}, {"--state", "x", "--", "--leash", "--tool", "http://127.0.0.1:1"},
		{"--state", "x", "--", "--state", "y", "--tool", "http://127.0.0.1:1"}, {"--state", "x", "--", "--no-such-flag"},
	} {
		cmd := millrace(t, append([]string{"mcp"}, args...)...)
		cmd.Dir = t.TempDir()
		if err := cmd.Run(); cmd.ProcessState.ExitCode() != 2 {
			t.Errorf("%q: %v", args, err)
		}
		if made, err := os.ReadDir(cmd.Dir); err != nil || len(made) > 0 {
			t.Errorf("%q makes %v, %v", args, made, err)
		}
	}
}
