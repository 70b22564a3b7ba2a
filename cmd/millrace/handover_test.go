package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
)

// A netHost is a separate host. Nil is this host.
type netHost struct {
	public, tools string // addresses of the runtime for others, and of servers on loopback
	network       string // the shared network, unless that is loopback
	do            func(func() error) error
	clients       *http.Client
}

// within starts something on the host.
func (h *netHost) within(start func() error) error {
	if h == nil || h.do == nil {
		return start()
	}
	return h.do(start)
}

// client returns a client that sends requests from the host.
func (h *netHost) client() *http.Client {
	if h == nil || h.do == nil {
		return http.DefaultClient
	}
	return h.clients
}

// dialFrom returns a client whose connections are made by do.
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
// listens on loopback. The pending call is interrupted, and its function runs again at the
// destination, which posts the result to the callback URL from the source. Then the destination's
// tool server is killed, and the restarted one serves the next call.
//
// If killed is 0 or 1, the runtime of that host and its tool server are killed in the middle of the
// move and restarted, and the move is requested until it is done.
func handOver(t *testing.T, hosts [2]*netHost, port, killed int) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	dir := t.TempDir()
	key := filepath.Join(dir, "migration.key")
	script := scriptFile(t, conversation.Reply{Text: "One moment.", Calls: []conversation.Call{{Name: "sleep", Arguments: `{"ms":8000}`}}},
		conversation.Reply{Text: "all done"}, conversation.Reply{Text: "More.", Calls: []conversation.Call{{Name: "sleep", Arguments: `{"ms":100}`}}}, conversation.Reply{Text: "all over"})
	var runtimes [2]*served
	var tools [2]*toolCommand
	for i, h := range hosts {
		state := filepath.Join(dir, fmt.Sprint(i))
		listen, api := net.JoinHostPort(h.public, fmt.Sprint(port)), net.JoinHostPort(h.tools, fmt.Sprint(port+1))
		s := &served{t: t, state: state, api: "http://" + api, at: h, args: []string{
			"serve", "--state", state, "--listen", listen, "--api", api,
			"--migration-key", key, "--model", "script:" + script,
		}}
		url, allow := fmt.Sprintf("http://%s:%d", h.tools, port+10+i), ""
		if h.network != "" {
			allow = "--allow-network " + h.network
		}
		tools[i] = newToolCommand(t, url, fmt.Sprintf("--host {host} --state '%s' --migration-key '%s' --migrate-to http://%s %s slow", filepath.Join(state, "slow"), key, listen, allow))
		s.args = append(s.args, "--tool-command", tools[i].flag)
		if h.network != "" {
			s.args = append(s.args, "--allow-network", h.network)
		}
		s.start()
		t.Cleanup(s.kill)
		runtimes[i] = s
	}
	a, b := runtimes[0], runtimes[1]
	for _, s := range runtimes {
		s.request(ctx, "GET", "/calls/none/none", "", http.StatusNotFound)
	}
	a.request(ctx, "POST", "/sessions", `{"id":"s"}`, http.StatusCreated)
	a.request(ctx, "POST", "/threads/s/messages", `{"text":"sleep","key":"sleep"}`, http.StatusAccepted)
	a.historyOf(ctx, "s", "One moment.")
	move := fmt.Sprintf(`{"to":"http://%s:%d"}`, hosts[1].public, port)
	if killed >= 0 {
		victim := runtimes[killed]
		dead := time.AfterFunc(2*time.Second, func() { victim.kill(); victim.start() })
		defer dead.Stop()
	}
	for moved := false; !moved; {
		status, text := a.request(ctx, "POST", "/sessions/s/migrate", move, http.StatusNoContent, http.StatusBadGateway, http.StatusConflict, http.StatusInternalServerError, http.StatusServiceUnavailable, http.StatusNotFound, http.StatusGone)
		moved = status == http.StatusNoContent || strings.Contains(string(text), "lives at")
		if !moved && (killed < 0 || ctx.Err() != nil) {
			t.Fatalf("the session has not moved: %d %s", status, text)
		}
		<-time.After(50 * time.Millisecond)
	}
	b.historyOf(ctx, "s", "all done")
	before := len(tools[1].started())
	syscall.Kill(tools[1].running(ctx, before), syscall.SIGKILL)
	b.request(ctx, "POST", "/threads/s/messages", `{"text":"more","key":"more"}`, http.StatusAccepted)
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
	tools[1].running(ctx, before+1)

	a.kill() // the other one stops on SIGTERM
	b.cmd.Process.Signal(syscall.SIGTERM)
	b.cmd.Wait()
	for _, c := range tools {
		for _, pid := range c.started() {
			c.wantGone(ctx, pid)
		}
	}
}
