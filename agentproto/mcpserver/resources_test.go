package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/agentproto/mcpserver"
)

func (c *calls) Subscriptions(_ context.Context, thread string) (open []agentproto.Events, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.events {
		if key.GroupID == thread && !e.Ended {
			open = append(open, agentproto.Events{Key: key, Operation: e.Operation, Last: e.Last})
		}
	}
	return open, nil
}

func (c *calls) Events(ctx context.Context, key agentproto.CallKey, after int) (agentproto.Events, error) {
	defer context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.changed.Broadcast()
	})()
	c.mu.Lock()
	defer c.mu.Unlock()
	for {
		e := c.events[key]
		switch {
		case e == nil:
			return agentproto.Events{}, host.ErrUnknownCall
		case e.Last > after || e.Ended:
			return *e, nil
		case ctx.Err() != nil:
			return *e, ctx.Err()
		}
		c.changed.Wait()
	}
}

func (c *calls) EndSubscription(_ context.Context, key agentproto.CallKey) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.events[key].Ended = true
	c.changed.Broadcast()
	return nil
}

// happens adds n events to the subscription of a call, and ends it if end is true.
func (c *calls) happens(key agentproto.CallKey, n int, end bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for range n {
		e := c.events[key]
		e.Last++
		e.Texts = append(e.Texts, fmt.Sprint("event ", e.Last))
	}
	c.events[key].Ended = end
	c.changed.Broadcast()
}

// opens makes a call whose result opens a subscription. It returns its task, its key and the resource that the result links to.
func (w *world) opens() (task string, key agentproto.CallKey, uri string) {
	w.t.Helper()
	task = w.task()
	w.calls.with(func(d *host.Description) {
		if d.Resolution == nil {
			resolve(d, agentproto.ByResult, "subscribed")
			d.Resolution.Result.Subscription = true
			key = d.Key
			if w.calls.events == nil {
				w.calls.events = map[agentproto.CallKey]*agentproto.Events{}
			}
			w.calls.events[key] = &agentproto.Events{Key: key, Operation: "one"}
		}
	})
	var got struct {
		Content []struct{ Type, URI string }
	}
	text, _ := json.Marshal(w.get(task).Result["result"])
	if err := json.Unmarshal(text, &got); err != nil || len(got.Content) != 2 || got.Content[1].Type != "resource_link" {
		w.t.Fatalf("the result is %s, %v", text, err)
	}
	return task, key, got.Content[1].URI
}

// read returns the contents of a resource.
func (w *world) read(uri string) (got struct {
	Tool       string
	Last, Gone int
	Ended      bool
	Events     []struct {
		N    int
		Text string
	}
}) {
	w.t.Helper()
	r := w.readOf(uri)
	contents, _ := r.Result["contents"].([]any)
	if len(contents) != 1 {
		w.t.Fatalf("%s is %s", uri, r.text)
	}
	text, _ := contents[0].(map[string]any)["text"].(string)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		w.t.Fatal(err)
	}
	return got
}

func (w *world) readOf(uri string) reply {
	w.header.Set("Mcp-Name", uri)
	defer w.header.Del("Mcp-Name")
	return w.say(w.t.Context(), "resources/read", `{"uri":"`+uri+`"}`)
}

// TestSubscriptionIsResource lists and reads a subscription, with its event numbers and the number of events that are gone, and
// ends it with tasks/cancel.
func TestSubscriptionIsResource(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	task, key, uri := w.opens()
	listed := w.say(t.Context(), "resources/list", `{}`)
	if !strings.Contains(listed.text, `"uri":"`+uri+`"`) || listed.Result["ttlMs"] != float64(0) {
		t.Errorf("listed: %s", listed.text)
	}
	if got := w.read(uri); got.Tool != "one" || got.Last != 0 || got.Ended || got.Events == nil {
		t.Errorf("at first: %+v", got)
	}
	w.calls.happens(key, 5, false)
	w.calls.mu.Lock()
	w.calls.events[key].Texts = w.calls.events[key].Texts[2:]
	w.calls.mu.Unlock()
	got := w.read(uri)
	if got.Last != 5 || got.Gone != 2 || len(got.Events) != 3 || got.Events[0].N != 3 || got.Events[2].N != 5 || got.Events[2].Text != "event 5" {
		t.Errorf("after five events: %+v", got)
	}
	if r := w.say(t.Context(), "tasks/cancel", `{"taskId":"`+task+`"}`); r.Error != nil || w.calls.canceled != 0 {
		t.Errorf("cancelled %d calls: %s", w.calls.canceled, r.text)
	}
	if got := w.read(uri); !got.Ended || got.Last != 5 {
		t.Errorf("when it has ended: %+v", got)
	}
	if r := w.get(task); r.Result["status"] != "completed" {
		t.Errorf("the task: %s", r.text)
	}
	if listed := w.say(t.Context(), "resources/list", `{}`); strings.Contains(listed.text, uri) {
		t.Errorf("listed when it has ended: %s", listed.text)
	}
}

// TestResourcesOfOthers checks that another owner's subscription does not exist, nor does a malformed URI (threat 58).
func TestResourcesOfOthers(t *testing.T) {
	w := newWorld(t, mcpserver.Options{})
	_, key, uri := w.opens()
	w.calls.happens(key, 1, false)
	never := w.readOf("millrace://subscriptions/never")
	never.is(t, "one that never was", int(jsonrpc.CodeInvalidParams), 0)
	for _, other := range []string{uri + "/", uri + "?", "millrace://subscriptions/", "millrace://subscriptions/%63a", "MILLRACE://subscriptions/ca", "file:///etc/passwd"} {
		w.readOf(other).is(t, other, int(jsonrpc.CodeInvalidParams), 0)
	}
	w.owner = "bob"
	if got := w.readOf(uri); strings.ReplaceAll(got.text, uri, "millrace://subscriptions/never") != never.text {
		t.Errorf("for another owner: %s, want %s", got.text, never.text)
	}
	if got := w.say(t.Context(), "resources/list", `{}`); strings.Contains(got.text, uri) {
		t.Errorf("listed for another owner: %s", got.text)
	}
	brief, cancel := context.WithTimeout(t.Context(), 10*time.Second) // bounds the stream if it is accepted
	defer cancel()
	listened := w.say(brief, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":["`+uri+`"]}}`)
	listened.is(t, "listening to it", int(jsonrpc.CodeInvalidParams), 0)
}

const updated = "notifications/resources/updated"

// TestResourceUpdates checks that a listening client of 2026-07-28 is notified of existing events, of new ones at most once a
// second, and of the end.
func TestResourceUpdates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpserver.Options{})
		_, key, uri := w.opens()
		w.calls.happens(key, 1, false) // the client may or may not have read it
		ctx, cancel := context.WithCancel(t.Context())
		got := make(chan reply, 1)
		go func() {
			got <- w.say(ctx, "subscriptions/listen", `{"notifications":{"resourceSubscriptions":["`+uri+`"]}}`)
		}()
		for range 10 {
			time.Sleep(2 * time.Second)
			for range 5 {
				w.calls.happens(key, 1, false) // one update, and a second one for the last four events
				time.Sleep(100 * time.Millisecond)
			}
		}
		time.Sleep(2 * time.Second)
		w.calls.happens(key, 0, true)
		time.Sleep(2 * time.Second)
		cancel()
		r := <-got
		if n := strings.Count(r.text, updated); n != 1+2*10+1 {
			t.Errorf("told %d times: %s", n, r.text)
		}
		if first, _, _ := strings.Cut(r.text, updated); !strings.Contains(first, "notifications/subscriptions/acknowledged") {
			t.Errorf("told before it was acknowledged: %s", r.text)
		}
		w.server.Close()
	})
}

// TestResourceUpdatesOfSessions checks the same over two sessions of an older revision that watch one resource. Each is notified
// once of each change, and no longer after it unsubscribes. Nothing keeps running when both have gone.
func TestResourceUpdatesOfSessions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, mcpserver.Options{Held: 2})
		_, key, uri := w.opens()
		type peer struct {
			*mcp.ClientSession
			told int
		}
		ended := make(chan error, 2)
		var peers [2]peer
		for i := range peers {
			in, toServer := io.Pipe()
			out, toClient := io.Pipe()
			go func() { ended <- w.server.ServeStdio(t.Context(), mcpserver.Owner{Name: "alice"}, in, toClient) }()
			client := mcp.NewClient(&mcp.Implementation{Name: "t", Version: "0"}, &mcp.ClientOptions{
				ResourceUpdatedHandler: func(_ context.Context, r *mcp.ResourceUpdatedNotificationRequest) {
					if r.Params.URI == uri {
						peers[i].told++
					}
				},
			})
			session, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: out, Writer: toServer}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
			if err != nil {
				t.Fatal(err)
			}
			peers[i].ClientSession = session
		}
		// are checks how often each peer has been notified by now.
		are := func(what string, first, second int) {
			t.Helper()
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if peers[0].told != first || peers[1].told != second {
				t.Errorf("%s: told %d and %d times, want %d and %d", what, peers[0].told, peers[1].told, first, second)
			}
		}
		var wire *jsonrpc.Error
		if err := peers[0].Subscribe(t.Context(), &mcp.SubscribeParams{URI: "millrace://subscriptions/never"}); !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInvalidParams {
			t.Errorf("one that never was: %v", err)
		}
		for range 2 { // the second subscription changes nothing
			if err := peers[0].Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
				t.Error(err)
			}
		}
		are("without events", 0, 0)
		w.calls.happens(key, 1, false)
		are("one event", 1, 0)
		if err := peers[1].Subscribe(t.Context(), &mcp.SubscribeParams{URI: uri}); err != nil {
			t.Error(err)
		}
		are("one that comes later", 2, 1) // because events exist already
		w.calls.happens(key, 1, false)
		are("two events", 3, 2)
		if err := peers[1].Subscribe(t.Context(), &mcp.SubscribeParams{URI: w.another(uri)}); !errors.As(err, &wire) || wire.Code != -32000 {
			t.Errorf("more than two: %v", err)
		}
		if err := peers[0].Unsubscribe(t.Context(), &mcp.UnsubscribeParams{URI: uri}); err != nil {
			t.Error(err)
		}
		w.calls.happens(key, 1, false)
		are("when the first does not want to know", 3, 3)
		for _, p := range peers {
			p.Close()
			<-ended
		}
		synctest.Wait()
		w.calls.happens(key, 1, false) // nobody waits for it
		are("when they have gone", 3, 3)
	})
}

// another makes a second subscription of the same owner.
func (w *world) another(of string) (uri string) {
	w.t.Helper()
	if _, _, uri = w.opens(); uri == of {
		w.t.Fatal("there is one subscription")
	}
	return uri
}
