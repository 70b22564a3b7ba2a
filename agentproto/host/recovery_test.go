package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/discovery"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/internal/freeport"
)

// A posting is one attempt to post an invocation.
type posting struct {
	inv *agentproto.Invocation
	id  string // the webhook-id
}

// recorder is a tool server that acknowledges calls and reports each posting.
func recorder(t *testing.T) (base string, got chan posting) {
	got = make(chan posting, 16)
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if r.URL.Path == discovery.Path {
			fmt.Fprintf(rw, `{"name":"r","endpoint":"%s/invoke","tools":[{"name":"keep","description":"d","inputSchema":{}}]}`, server.URL)
			return
		}
		body, _ := io.ReadAll(r.Body)
		if inv, err := agentproto.DecodeInvocation(body, agentproto.Limits{}); err == nil {
			got <- posting{inv, r.Header.Get("webhook-id")}
		}
	}))
	t.Cleanup(server.Close)
	return server.URL, got
}

// kept returns the options of a runtime that can be restarted.
func kept(t *testing.T, base string) Options {
	t.Helper()
	addr, err := freeport.Address()
	if err != nil {
		t.Fatal(err)
	}
	sealer, err := SealerOf([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	return Options{
		Toolsets: []string{base}, Surface: &user{}, Logger: quiet, Sealer: sealer, ListenAddr: addr,
		State: &durable.Options{Log: natslog.Embedded(t.TempDir()), Logger: quiet},
	}
}

// TestI13PostedAfterRestart checks that a call that was not posted when the runtime ended
// is posted by the next one, with the same identifiers, and resolved once (I13).
func TestI13PostedAfterRestart(t *testing.T) {
	base, got := recorder(t)
	opts := kept(t, base)
	var cut atomic.Bool
	var dialer net.Dialer
	first := opts
	first.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if cut.Load() { // nothing leaves this process from now on
			<-ctx.Done()
			return nil, errors.New("cut")
		}
		return dialer.DialContext(ctx, network, addr)
	}
	rt, err := Start(t.Context(), first)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := rt.ToolsOf(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	rt.peers.Client.CloseIdle()
	cut.Store(true)
	key, err := rt.Call(t.Context(), Request{GroupID: "g", ID: "1", Operation: "keep", Lifetime: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	stopAtOnce(t, rt)
	if len(got) != 0 {
		t.Fatal("the call was posted already")
	}

	if rt, err = Start(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	defer stopAtOnce(t, rt)
	p := <-got
	if p.inv.Key() != key || p.id != peer.MessageID("invoke", key, p.inv.CallbackURL) {
		t.Errorf("posted %v as %s, want %v with the id it would have had", p.inv.Key(), p.id, key)
	}
	for range 2 {
		postUntilTaken(t, p.inv.CallbackURL, result(key, "done"))
	}
	if r, err := rt.Await(t.Context(), key); err != nil || r.Result.String() != "done" {
		t.Errorf("%+v, %v", r, err)
	}
	if len(got) != 0 {
		t.Errorf("it was posted again: %v", (<-got).inv.Key())
	}
}
