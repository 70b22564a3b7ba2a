package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto/toolserver"
)

// ticking serves a tool in this process. Its subscription sends a numbered event for each value of more.
func ticking(t *testing.T) (url string, more chan<- struct{}) {
	var handler http.Handler
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handler.ServeHTTP(w, r) }))
	t.Cleanup(web.Close)
	s := toolserver.New(toolserver.Options{Name: "ticking", PublicURL: web.URL})
	handler = s
	next := make(chan struct{}, 16)
	toolserver.AddSubscription(s, "ticks", "Ticks.", toolserver.ToolOptions{},
		func(context.Context, struct{}) (string, *int, error) { return "it ticks", new(int), nil },
		func(ctx context.Context, sub *toolserver.Subscription[int]) error {
			for n := 1; ; n++ {
				select {
				case <-next:
				case <-ctx.Done():
					return ctx.Err()
				}
				if err := sub.Send(ctx, toolserver.Event{Text: fmt.Sprint("tick ", n)}, n); err != nil {
					return err
				}
			}
		})
	return web.URL, next
}

// reading returns the contents of a subscription's resource: the lost events, the numbered events, and whether it has ended.
func reading(ctx context.Context, with func() speaker, uri string, wanted func(said string) bool) (said string, err error) {
	_, err = until(ctx, with, "resources/read", map[string]any{"uri": uri}, func(a *mcpAnswer) bool {
		var contents []struct{ Text string }
		var got struct {
			Gone   int
			Ended  bool
			Events []struct {
				N    int
				Text string
			}
		}
		if json.Unmarshal(a.Result.Contents, &contents) != nil || len(contents) != 1 || json.Unmarshal([]byte(contents[0].Text), &got) != nil {
			return false
		}
		said = fmt.Sprint("gone ", got.Gone)
		for _, e := range got.Events {
			said += fmt.Sprintf("; %d %s", e.N, e.Text)
		}
		if got.Ended {
			said += "; ended"
		}
		return wanted(said)
	})
	return said, err
}

// TestMCPSubscriptionsKilled kills the runtime and the front. Afterwards the resource of a subscription contains its events in
// order, numbered, each once, including those sent meanwhile. A client that watches through a front that was not killed is
// notified again. The subscription ends when its owner cancels it.
func TestMCPSubscriptionsKilled(t *testing.T) {
	t.Parallel()
	url, more := ticking(t)
	s := serveRuntime(t, t.TempDir(), []string{url})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s.request(ctx, "GET", "/stats", "", http.StatusOK)
	updates := make(chan string, 100)
	watcher, err := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "0"}, &mcp.ClientOptions{
		ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) { updates <- r.Params.URI },
	}).Connect(ctx, &mcp.CommandTransport{Command: millrace(t, "mcp", "--api", s.api, "--token-file", filepath.Join(s.state, tokenName))}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	front := startMCP(t, s)
	over := map[string]func() speaker{
		"HTTP":  func() speaker { return overHTTP{s} },
		"stdio": func() speaker { return front },
	}
	// The front on standard input and output has its own owner, and so its own thread.
	if _, err := until(ctx, over["stdio"], "tools/call", map[string]any{"name": "ticks", "arguments": map[string]any{}, "key": "k"}, func(a *mcpAnswer) bool { return a.Error == nil }); err != nil {
		t.Fatal(err)
	}
	listed, err := until(ctx, over["stdio"], "resources/list", map[string]any{}, func(a *mcpAnswer) bool { return len(a.Result.Resources) == 1 })
	if err != nil {
		t.Fatal(err)
	}
	uri := listed.Result.Resources[0].URI
	if a, err := over["HTTP"]().say(ctx, int(requests.Add(1)), "resources/read", map[string]any{"uri": uri}); err != nil || a.Error == nil {
		t.Errorf("another owner reads it: %+v, %v", a, err)
	}
	if err := watcher.Subscribe(ctx, &mcp.SubscribeParams{URI: uri}); err != nil {
		t.Fatal(err)
	}
	// told waits until the watcher is notified and the resource has n events.
	told := func(n int) {
		t.Helper()
		for found := ""; !strings.Contains(found, fmt.Sprintf(`"last":%d,`, n)); {
			select {
			case got := <-updates:
				if got != uri {
					t.Errorf("told of %s, not %s", got, uri)
				}
				r, err := watcher.ReadResource(ctx, &mcp.ReadResourceParams{URI: uri})
				if err != nil {
					t.Fatal(err)
				}
				found = r.Contents[0].Text
			case <-ctx.Done():
				t.Fatalf("the watcher is not told of %d events, but of %s", n, found)
			}
		}
	}
	// are reads until the events are those up to n.
	are := func(n int, end string) {
		t.Helper()
		want := "gone 0"
		for i := range n {
			want += fmt.Sprintf("; %d tick %d", i+1, i+1)
		}
		want += end
		if said, err := reading(ctx, over["stdio"], uri, func(said string) bool { return said == want }); err != nil {
			t.Fatalf("%v: it says %q, want %q", err, said, want)
		}
	}
	n := 0
	tick := func() { n++; more <- struct{}{} }
	tick()
	told(1)
	are(1, "")
	for range *mcpAnswers {
		s.kill()
		front.kill()
		tick() // while neither process runs
		s.start()
		front = startMCP(t, s)
		tick()
		are(n, "")
		told(n)
		if a, err := until(ctx, over["stdio"], "resources/list", map[string]any{}, func(a *mcpAnswer) bool { return a.Error == nil }); err != nil || len(a.Result.Resources) != 1 || a.Result.Resources[0].URI != uri {
			t.Errorf("listed: %+v, %v", a, err)
		}
	}
	thread, id := threadOfURI(t, ctx, s, uri)
	if s.request(ctx, "DELETE", "/calls/"+thread+"/"+id+"/events", "", http.StatusNoContent); t.Failed() {
		return
	}
	are(n, "; ended")
	if a, err := until(ctx, over["stdio"], "resources/list", map[string]any{}, func(a *mcpAnswer) bool { return a.Error == nil }); err != nil || len(a.Result.Resources) != 0 {
		t.Errorf("listed at the end: %+v, %v", a, err)
	}
}

// threadOfURI finds the call of a resource in the API's list of calls.
func threadOfURI(t *testing.T, ctx context.Context, s *served, uri string) (thread, id string) {
	t.Helper()
	var page struct {
		Calls []struct {
			GroupID string `json:"group_id"`
			ID      string `json:"id"`
		} `json:"calls"`
	}
	_, text := s.request(ctx, "GET", "/calls", "", http.StatusOK)
	if err := json.Unmarshal(text, &page); err != nil {
		t.Fatal(err)
	}
	for _, c := range page.Calls {
		if strings.HasSuffix(uri, "/"+c.ID) {
			return c.GroupID, c.ID
		}
	}
	t.Fatalf("there is no call of %s among %+v", uri, page.Calls)
	return "", ""
}
