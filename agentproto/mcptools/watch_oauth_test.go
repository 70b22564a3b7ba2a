package mcptools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/mcptools"
	"github.com/millrace/millrace/internal/idp"
)

// methodOf returns the method of a request in MCP, and leaves the request as it is. Older versions do not have it in a header.
func methodOf(t *testing.T, r *http.Request) string {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Error(err)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct{ Method string }
	_ = json.Unmarshal(body, &m) // a GET has no body
	return m.Method
}

// newWatched returns a remote server with a resource. It is "one" when it is first read, and then "two". An old server speaks only
// versions that begin with initialize.
func newWatched(t *testing.T, old bool, subscribe func(context.Context, *mcp.SubscribeRequest) error) *remote {
	s := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   subscribe,
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	r := new(remote)
	s.AddResource(&mcp.Resource{URI: noteURI, Name: "note"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		text := "two"
		if r.calls.Add(1) == 1 {
			text = "one"
		}
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: noteURI, Text: text}}}, nil
	})
	r.serve(t, s, !old)
	if front := r.Config.Handler; old {
		r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			if methodOf(t, req) == "server/discover" {
				w.WriteHeader(http.StatusNotFound)
				return
			}
			front.ServeHTTP(w, req)
		})
	}
	return r
}

// anyURI lets every resource be subscribed to.
func anyURI(context.Context, *mcp.SubscribeRequest) error { return nil }

// TestMB25_Watch has a server require another scope for subscribing to a resource than for reading it, and later refuse every
// token. The test fails if the user is not asked before the call has its result, which a runtime takes as the end of questions, or
// if the subscription does not end when it cannot go on.
func TestMB25_Watch(t *testing.T) {
	t.Parallel()
	for version, method := range map[string]string{"newest": "subscriptions/listen", "legacy": "resources/subscribe"} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			p := protect(t, newWatched(t, version == "legacy", anyURI), method, idp.Options{Scopes: []string{"read", "write"}}, func(*mcptools.Options) {})
			p.call("ada", "one", "sign_in", "{}")
			if page, err := p.detour(); err != nil {
				t.Fatalf("%v: %s", err, page)
			}
			p.result()
			p.mu.Lock()
			p.scarce = true
			p.mu.Unlock()
			p.call("ada", "watch", "watch_resource", `{"uri":"file:///note"}`)
			if page, err := p.detour(); err != nil {
				t.Fatalf("%v: %s", err, page)
			}
			if r := p.result(); r.String() != "file:///note\none" || !r.Subscription {
				t.Fatalf("the subscription begins with %v", r)
			}
			if got := p.event(); got != "file:///note\ntwo" {
				t.Errorf("the event is %q", got)
			}
			if version == "legacy" {
				return // its stream of changes is not that of the subscription
			}
			p.mu.Lock()
			p.forbidden = true
			p.mu.Unlock()
			p.CloseClientConnections()
			if e, ok := p.next().(*agentproto.SubscriptionEvent); !ok || !e.Final || e.Text != "Error: p does not permit it to the user" {
				t.Errorf("a server that refuses the scope that it asked for: %+v", e)
			}
		})
	}
}

// TestWatchRefused has a server refuse to let a resource be subscribed to. The call fails, instead of opening a subscription
// without events.
func TestWatchRefused(t *testing.T) {
	t.Parallel()
	r := newWatched(t, true, func(context.Context, *mcp.SubscribeRequest) error { return errors.New("it cannot be watched") })
	d := newDesk(t, r.options)
	d.call("t", "watch", "watch_resource", `{"uri":"file:///note"}`)
	if got := d.result(); !strings.HasPrefix(got.String(), "Error: p refused the call: ") || got.Subscription {
		t.Errorf("the result is %+v", got)
	}
}

// TestWatchHeldUp has a server not answer the request for a stream of changes. The call still ends when it is cancelled.
func TestWatchHeldUp(t *testing.T) {
	t.Parallel()
	r := newWatched(t, false, anyURI)
	front := r.Config.Handler
	var held, left atomic.Int32
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if methodOf(t, req) != "subscriptions/listen" {
			front.ServeHTTP(w, req)
			return
		}
		held.Add(1)
		<-req.Context().Done()
		left.Add(1)
	})
	d := newDesk(t, r.options)
	d.call("t", "watch", "watch_resource", `{"uri":"file:///note"}`)
	d.until("the server is asked", func() bool { return held.Load() > 0 })
	d.post(mcptools.Base("p")+"/cancel_tool_call", `{"thread_id":"t","tool_call_id":"watch"}`)
	d.until("the request is given up", func() bool { return left.Load() > 0 })
}
