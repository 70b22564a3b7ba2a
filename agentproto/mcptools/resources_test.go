package mcptools_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/mcptools"
)

// event returns the text of the next event.
func (d *desk) event() string {
	d.t.Helper()
	m := d.next()
	e, ok := m.(*agentproto.SubscriptionEvent)
	if !ok {
		d.t.Fatalf("%+v is no event", m)
	}
	return e.Text
}

// TestMB30_Resources lists, reads and watches a resource of a program, while the program and this process restart. Each new text
// arrives exactly once.
func TestMB30_Resources(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"legacy", "newest"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			folder := t.TempDir()
			open := func(notes string) *desk {
				return newDesk(t, func(o *mcptools.Options) {
					o.State, o.Servers[0].Env["MODE"], o.Bounds.Ends = folder, mode, 100
					if notes != "" {
						o.Servers[0].Env[peerEnv] = notes
					}
				})
			}
			d := open("")
			notes := d.notes
			write := func(text string) {
				t.Helper()
				if err := os.WriteFile(notes+".text", []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("one")
			d.call("t", "list", "list_resources", "{}")
			d.want("the list", "file:///note the note (text/plain): A note.\ntemplate file:///{name} others")
			d.call("t", "read", "read_resource", `{"uri":"file:///note"}`)
			d.want("a resource", "file:///note\none")
			d.call("t", "none", "read_resource", `{"uri":"http://other.example/x"}`)
			if got := d.result().String(); !strings.HasPrefix(got, "Error: p refused the call: ") {
				t.Errorf("a resource that is not there: %q", got)
			}
			d.call("t", "watch", "watch_resource", `{"uri":"file:///note"}`)
			if r := d.result(); r.String() != "file:///note\none" || !r.Subscription {
				t.Errorf("the subscription begins with %+v", r)
			}
			d.until("it is subscribed to", func() bool { return d.noted("subscribed") > 0 })
			write("two")
			for _, id := range []string{"a", "b", "c"} {
				d.call("other", id, "touch", "{}")
			}
			var got []string
			for range 4 { // three results, one event
				switch m := d.next().(type) {
				case *agentproto.SubscriptionEvent:
					got = append(got, m.Text)
				case *agentproto.ToolResult:
				}
			}
			if len(got) != 1 || got[0] != "file:///note\ntwo" {
				t.Errorf("the events are %q", got)
			}
			write("three")
			d.call("other", "crash", "crash", "{}")
			if got := d.result().String(); !strings.HasPrefix(got, "Error: ") {
				t.Errorf("a crash: %q", got)
			}
			if got := d.event(); got != "file:///note\nthree" {
				t.Errorf("after the server was started again: %q", got)
			}
			if err := d.set.Close(t.Context()); err != nil {
				t.Fatal(err)
			}
			write("four")
			d = open(notes)
			if err := d.set.Resume(); err != nil {
				t.Fatal(err)
			}
			if got := d.event(); got != "file:///note\nfour" {
				t.Errorf("after this process was started again: %q", got)
			}
			d.post(mcptools.Base("p")+"/cancel_tool_call", `{"thread_id":"t","tool_call_id":"watch"}`)
			write("five")
			d.call("other", "last", "touch", "{}")
			d.want("touch", "touched")
		})
	}
}

// TestMB30_StreamLost breaks the stream of changes of an HTTP server twice. The test fails if the server no longer has the
// subscription afterwards.
func TestMB30_StreamLost(t *testing.T) {
	t.Parallel()
	var text atomic.Value
	text.Store("one")
	s := mcp.NewServer(&mcp.Implementation{Name: "remote", Version: "1"}, &mcp.ServerOptions{
		SubscribeHandler:   func(context.Context, *mcp.SubscribeRequest) error { return nil },
		UnsubscribeHandler: func(context.Context, *mcp.UnsubscribeRequest) error { return nil },
	})
	s.AddResource(&mcp.Resource{URI: noteURI, Name: "note"}, func(context.Context, *mcp.ReadResourceRequest) (*mcp.ReadResourceResult, error) {
		return &mcp.ReadResourceResult{Contents: []*mcp.ResourceContents{{URI: noteURI, Text: text.Load().(string)}}}, nil
	})
	front := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true})
	var listens atomic.Int32
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Mcp-Method") == "subscriptions/listen" {
			listens.Add(1)
		}
		front.ServeHTTP(w, r)
	}))
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
	})
	d := newDesk(t, func(o *mcptools.Options) { o.Servers[0] = mcptools.Server{Name: "p", URL: web.URL + "/mcp"} })
	d.call("t", "watch", "watch_resource", `{"uri":"file:///note"}`)
	d.want("the subscription", "file:///note\none")
	before := int32(0)
	for _, next := range []string{"two", "three"} {
		d.until("it is listened to", func() bool { return listens.Load() > before })
		before = listens.Load()
		web.CloseClientConnections()
		d.until("it is listened to again", func() bool { return listens.Load() > before })
		before = listens.Load() - 1 // the newest one is broken next
		text.Store(next)
		if err := s.ResourceUpdated(t.Context(), &mcp.ResourceUpdatedNotificationParams{URI: noteURI}); err != nil {
			t.Fatal(err)
		}
		if got := d.event(); got != "file:///note\n"+next {
			t.Errorf("the event is %q", got)
		}
	}
}
