package mcpserver_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/mcpserver"
)

const changed = "notifications/tools/list_changed"

// TestToolsChange checks that a client of 2026-07-28 that listens for tool changes is notified once for each, and that a client
// that listens for something else is not.
func TestToolsChange(t *testing.T) {
	for wanted, want := range map[string]int{`"toolsListChanged":true`: 2, `"promptsListChanged":true`: 0} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t, mcpserver.Options{})
			w.say(t.Context(), "tools/list", `{}`)
			time.Sleep(time.Minute) // the first list counts as a change
			ctx, cancel := context.WithCancel(t.Context())
			got := make(chan reply)
			go func() { got <- w.say(ctx, "subscriptions/listen", `{"notifications":{`+wanted+`}}`) }()
			for _, more := range [][]string{{"new"}, {"new"}, nil, nil} {
				w.calls.mu.Lock()
				w.calls.more = more
				w.calls.mu.Unlock()
				time.Sleep(time.Minute)
			}
			cancel()
			if r := <-got; strings.Count(r.text, changed) != want {
				t.Errorf("%s: told %d times, want %d: %s", wanted, strings.Count(r.text, changed), want, r.text)
			}
		})
	}
}

// TestToolsChangeOfSession is TestToolsChange over a session of an older revision.
func TestToolsChangeOfSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpserver.Options{})
		in, toServer := io.Pipe()
		out, toClient := io.Pipe()
		ended := make(chan error, 1)
		go func() { ended <- w.server.ServeStdio(t.Context(), mcpserver.Owner{Name: "alice"}, in, toClient) }()
		told := 0
		client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "0"}, &mcp.ClientOptions{
			ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { told++ },
		})
		session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: toServer}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := session.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		told = 0 // the first list counts as a change
		w.calls.mu.Lock()
		w.calls.more = []string{"new"}
		w.calls.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		if told != 1 {
			t.Errorf("told %d times", told)
		}
		session.Close()
		<-ended
	})
}

// TestStreams checks the number of streams that one owner may have open at once, whatever they carry. Another owner is still
// served (threat 55).
func TestStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpserver.Options{Held: 2})
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan reply)
		listen := func(ctx context.Context) reply {
			return w.say(ctx, "subscriptions/listen", `{"notifications":{"toolsListChanged":true}}`)
		}
		for range 2 {
			go func() { got <- listen(ctx) }()
			synctest.Wait()
		}
		brief, end := context.WithTimeout(t.Context(), time.Minute)
		defer end()
		listen(brief).is(t, "one more", -32000, http.StatusTooManyRequests)
		w.caps = noTasks
		w.say(brief, "tools/call", `{"name":"one","arguments":{}}`).is(t, "a call besides", -32000, 0)
		w.owner = "bob"
		go func() { got <- listen(ctx) }()
		synctest.Wait()
		cancel()
		for range 3 {
			if r := <-got; !strings.Contains(r.text, "notifications/subscriptions/acknowledged") {
				t.Errorf("a stream: %d %s", r.status, r.text)
			}
		}
	})
}
