package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsserver "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// fails starts the runtime, which must exit with an error, and returns its output.
func (s *served) fails(more ...string) string {
	s.t.Helper()
	cmd := millrace(s.t, append(append([]string{}, s.args...), more...)...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	late := time.AfterFunc(time.Minute, func() { cmd.Process.Kill() })
	defer late.Stop()
	cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 1 {
		s.t.Errorf("serve %v: exit %d: %s", more, code, errs.String())
	}
	return errs.String()
}

// TestServeKeys removes the keys of a history, and replaces them by others. The runtime does not create new keys for
// them, and does not continue with other keys unless told to.
func TestServeKeys(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	dir := t.TempDir()
	state, migration := filepath.Join(dir, "state"), filepath.Join(dir, "shared.key")
	callback := filepath.Join(state, "callback.key")
	s := serveRuntime(t, state, tools, "--migration-key", migration)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "POST", "/calls", `{"group_id":"t","id":"c","operation":"sleep","arguments":{"ms":3600000}}`, http.StatusAccepted)
	s.kill()

	other := []byte(hex.EncodeToString(bytes.Repeat([]byte{7}, 32)) + "\n")
	for _, file := range []string{callback, migration} {
		was, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if says := s.fails(); !strings.Contains(says, file) || !strings.Contains(says, "--accept-other-keys") {
			t.Errorf("%s is gone: %s", file, says)
		}
		if _, err := os.Stat(file); err == nil {
			t.Errorf("%s was made anew", file)
		}
		for _, is := range [][]byte{other, was[:20], {}} {
			if err := os.WriteFile(file, is, 0o600); err != nil {
				t.Fatal(err)
			}
			if says := s.fails(); !strings.Contains(says, file) {
				t.Errorf("%s has %q: %s", file, is, says)
			}
		}
		if err := os.WriteFile(file, was, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	up := func(more ...string) {
		t.Helper()
		args := s.args
		s.args = append(append([]string{}, args...), more...)
		s.start()
		s.args = args
		s.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
		s.kill()
	}
	up()
	was, err := os.ReadFile(callback)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(callback); err != nil {
		t.Fatal(err)
	}
	up("--accept-other-keys")
	up() // with the key that was created then
	if err := os.WriteFile(callback, was, 0o600); err != nil {
		t.Fatal(err)
	}
	if says := s.fails(); !strings.Contains(says, "another key") {
		t.Errorf("with the key from before the one that was accepted: %s", says)
	}
}

// TestServeFlowFails has the flow of a running runtime fail: another user of its NATS server writes an invalid record
// into its stream. There is one partition, because the others would continue.
func TestServeFlowFails(t *testing.T) {
	t.Parallel()
	_, tools := startTool(t)
	server, err := natsserver.NewServer(&natsserver.Options{
		Host: "127.0.0.1", Port: natsserver.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), SyncAlways: true, NoLog: true, NoSigs: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	server.Start()
	defer server.Shutdown()
	if !server.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server did not start")
	}
	s := serveRuntime(t, t.TempDir(), tools, "--nats", server.ClientURL(), "--replicas", "1", "--assume-durable", "--partitions", "1")
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "POST", "/calls", `{"group_id":"t","id":"c","operation":"echo","arguments":{"text":"x"}}`, http.StatusAccepted)
	s.kill()

	cmd := millrace(t, s.args...)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.cmd = cmd // to be killed at the end
	s.request(ctx, "GET", "/calls/t/c?wait=20s", "", http.StatusOK)
	nc, err := nats.Connect(server.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Request("millrace.in.0", []byte("no record"), 10*time.Second); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- cmd.Wait() }()
	select {
	case <-over:
	case <-ctx.Done():
		t.Fatal("it goes on")
	}
	if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(errs.String(), "the flow has ended") || !strings.Contains(errs.String(), "IN_millrace") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
}
