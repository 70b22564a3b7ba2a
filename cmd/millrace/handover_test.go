package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
)

// A netHost is a host of its own. Nil is this one.
type netHost struct {
	public, tools string // addresses of the runtime for others, and of what is on loopback
	do            func(func() error) error
	clients       *http.Client
}

// within starts something at the host.
func (h *netHost) within(start func() error) error {
	if h == nil || h.do == nil {
		return start()
	}
	return h.do(start)
}

// client returns what makes requests from the host.
func (h *netHost) client() *http.Client {
	if h == nil || h.do == nil {
		return http.DefaultClient
	}
	return h.clients
}

// dialFrom makes requests of a test from a host.
func dialFrom(do func(func() error) error) *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, addr string) (conn net.Conn, err error) {
		err = do(func() error {
			conn, err = new(net.Dialer).DialContext(ctx, network, addr)
			return err
		})
		return conn, err
	}}}
}

// handOver moves a session from one host to another. Each runtime starts its tool server, which
// listens on loopback. The call that is pending is interrupted, and its function runs again at the
// destination, which posts the result to the callback URL that it was given at the source. The
// destination's tool server is killed then, and the next call has the one that is started again.
func handOver(t *testing.T, hosts [2]*netHost) {
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Second)
	defer cancel()
	dir := t.TempDir()
	key := filepath.Join(dir, "migration.key")
	script := scriptFile(t, conversation.Reply{Text: "One moment.", Calls: []conversation.Call{{Name: "sleep", Arguments: `{"ms":8000}`}}},
		conversation.Reply{Text: "all done"}, conversation.Reply{Text: "More.", Calls: []conversation.Call{{Name: "sleep", Arguments: `{"ms":100}`}}}, conversation.Reply{Text: "all over"})
	var runtimes [2]*served
	var tools [2]*toolCommand
	for i, h := range hosts {
		state := filepath.Join(dir, fmt.Sprint(i))
		listen := net.JoinHostPort(h.public, "17340")
		s := &served{t: t, state: state, api: "http://" + net.JoinHostPort(h.tools, "17341"), at: h, args: []string{
			"serve", "--state", state, "--listen", listen, "--api", net.JoinHostPort(h.tools, "17341"),
			"--migration-key", key, "--model", "script:" + script,
		}}
		url := fmt.Sprintf("http://%s:%d", h.tools, 18800+i)
		tools[i] = newToolCommand(t, url, fmt.Sprintf("--host {host} --state '%s' --migration-key '%s' --migrate-to http://%s slow", filepath.Join(state, "slow"), key, listen))
		s.args = append(s.args, "--tool-command", tools[i].flag)
		s.start()
		t.Cleanup(s.kill)
		runtimes[i] = s
	}
	a, b := runtimes[0], runtimes[1]
	for _, s := range runtimes {
		s.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
	}
	a.request(ctx, "POST", "/sessions", `{"id":"s"}`, http.StatusCreated)
	a.request(ctx, "POST", "/threads/s/messages", `{"text":"sleep"}`, http.StatusAccepted)
	a.historyOf(ctx, "s", "One moment.")
	move := fmt.Sprintf(`{"to":"http://%s:17340"}`, hosts[1].public)
	if status, text := a.request(ctx, "POST", "/sessions/s/migrate", move, http.StatusNoContent, http.StatusBadGateway, http.StatusConflict, http.StatusInternalServerError); status != http.StatusNoContent {
		t.Fatalf("the session has not moved: %s", text)
	}
	b.historyOf(ctx, "s", "all done")
	syscall.Kill(tools[1].running(ctx, 1), syscall.SIGKILL)
	b.request(ctx, "POST", "/threads/s/messages", `{"text":"more"}`, http.StatusAccepted)
	results := map[string]string{}
	for _, m := range b.historyOf(ctx, "s", "all over") {
		if m.Kind == "result" {
			results[m.ID] += m.Content[0].Text
		}
	}
	if len(results) != 2 || results["call-1-1"] != "slept for 8000 ms" || results["call-3-1"] != "slept for 100 ms" {
		t.Errorf("the results are %q", results)
	}
	a.request(ctx, "POST", "/threads/s/messages", `{"text":"still there?"}`, http.StatusGone)
	tools[1].running(ctx, 2)

	a.kill() // and the other ends as it should
	b.cmd.Process.Signal(syscall.SIGTERM)
	b.cmd.Wait()
	for _, c := range tools {
		for _, pid := range c.started() {
			c.wantGone(ctx, pid)
		}
	}
}
