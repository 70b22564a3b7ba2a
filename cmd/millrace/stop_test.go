package main

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// TestServeStopsWhileItStarts sends SIGTERM to a runtime that waits for a NATS server that is down.
func TestServeStopsWhileItStarts(t *testing.T) {
	t.Parallel()
	cmd := millrace(t, "serve", "--state", filepath.Join(t.TempDir(), "state"), "--tool", "http://127.0.0.1:1",
		"--listen", freeAddress(t), "--api", freeAddress(t), "--nats", "nats://"+freeAddress(t))
	said := newWords()
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	said.until(ctx, t, "still trying to reach", func() {})
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	defer late.Stop()
	if err := cmd.Wait(); err != nil {
		t.Errorf("it ends with %v", err)
	}
}
