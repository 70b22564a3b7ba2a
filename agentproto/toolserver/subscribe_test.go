package toolserver_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

type place struct {
	Next int `json:"next"`
}

// addFeed adds a tool that sends a number each minute. Its state is the next number. It calls
// produced with the end of each run.
func addFeed(s *toolserver.Server, produced func(from int, err error)) {
	type feed struct {
		From int  `json:"from"`
		Last int  `json:"last,omitempty"`
		No   bool `json:"no,omitempty"`
	}
	toolserver.AddSubscription(s, "feed", "Counts.", toolserver.ToolOptions{},
		func(_ context.Context, in feed) (string, *place, error) {
			if in.No {
				return "nothing to count", nil, nil
			}
			if in.From < 0 {
				return "", nil, errors.New("counts from 0 on")
			}
			return "counting", &place{in.From}, nil
		},
		func(ctx context.Context, sub *toolserver.Subscription[place]) error {
			from := sub.State().Next
			err := func() error {
				for {
					select {
					case <-time.After(time.Minute):
					case <-ctx.Done():
						return context.Cause(ctx)
					}
					n := sub.State().Next
					if err := sub.Send(ctx, toolserver.Event{Text: fmt.Sprint(n), Inline: n%2 == 0, Final: n == 9}, place{n + 1}); err != nil {
						return err
					}
				}
			}()
			if produced != nil {
				produced(from, err)
			}
			return err
		})
}

// event returns the next message, which must be an event.
func (rt *runtime) event() *agentproto.SubscriptionEvent {
	rt.t.Helper()
	m := rt.next()
	e, ok := m.Callback.(*agentproto.SubscriptionEvent)
	if !ok {
		rt.t.Fatalf("got %s, want a subscription_event", m.body)
	}
	return e
}

// opened checks that the next message is a result that opens a subscription.
func (rt *runtime) opened() {
	rt.t.Helper()
	m := rt.next()
	if r, ok := m.Callback.(*agentproto.ToolResult); !ok || !r.Subscription {
		rt.t.Fatalf("got %s, want a result that opens a subscription", m.body)
	}
}

func TestSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		addFeed(rt.server, nil)
		rt.call("feed", "c1", `{"from":7}`, callID("x"))
		rt.opened()
		for n := 7; n <= 9; n++ {
			if e := rt.event(); *e != (agentproto.SubscriptionEvent{GroupID: "thread-1", ToolCallID: "c1", Text: fmt.Sprint(n), Associative: n%2 == 0, Final: n == 9}) {
				t.Errorf("event %+v", e)
			}
		}
		rt.call("feed", "c2", `{"from":1,"no":true}`)
		m := rt.next()
		if r, ok := m.Callback.(*agentproto.ToolResult); !ok || r.Subscription || r.String() != "nothing to count" {
			t.Errorf("got %s", m.body)
		}
		rt.call("feed", "c3", `{"from":-1}`)
		if got := rt.nextResult(); got != "Error: counts from 0 on" {
			t.Errorf("result %q", got)
		}
		rt.close() // nothing follows the final event
	})
}

func TestS13_SubscriptionSurvivesRestart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ran := make(chan string, 4)
		h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) {
			addFeed(s, func(from int, err error) { ran <- fmt.Sprintf("%d %v", from, err) })
		})
		h.call("feed", "c1", `{"from":0}`)
		h.opened()
		for n := range 10 {
			if n%3 == 1 {
				<-time.After(20 * time.Second)
				h.end()
				h.begin()
			}
			if e := h.event(); e.Text != fmt.Sprint(n) || e.Final != (n == 9) {
				t.Errorf("event %+v, want %d", e, n)
			}
		}
		synctest.Wait()
		h.end()
		h.begin()
		h.close()
		runs := []string{<-ran, <-ran, <-ran, <-ran}
		want := "[0 the tool server is shutting down 1 the tool server is shutting down 4 the tool server is shutting down 7 toolserver: the call has ended]"
		if got := fmt.Sprint(runs); got != want {
			t.Errorf("runs %s", got)
		}
	})
}

func TestS14_S15_SubscriptionIsEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(rt *runtime){
		"cancel": func(rt *runtime) { rt.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c1"}`) },
		"close":  func(rt *runtime) { rt.post("/close_thread", `{"thread_id":"thread-1"}`) },
		"gone": func(rt *runtime) {
			rt.mu.Lock()
			defer rt.mu.Unlock()
			rt.answer = func(_ int, m received) (*http.Response, error) {
				if strings.Contains(m.body, "thread-1") {
					return status(410), nil
				}
				return status(200), nil
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var ended atomic.Pointer[error]
				h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) {
					addFeed(s, func(from int, err error) {
						if from == 0 {
							ended.Store(&err)
						}
					})
				})
				h.call("feed", "c1", `{"from":0}`)
				h.opened()
				h.call("feed", "c1", `{"from":5}`, thread("thread-2"))
				h.opened()
				h.event()
				h.event()
				end(h.runtime)
				synctest.Wait()
				for n := 6; n <= 9; n++ {
					if e := h.event(); e.GroupID != "thread-2" || e.Text != fmt.Sprint(n) {
						t.Errorf("event %+v", e)
					}
				}
				if cause := ended.Load(); cause == nil || !errors.Is(*cause, toolserver.ErrCancelled) {
					t.Errorf("the producer ended with %v", cause)
				}
				h.end()
				h.begin()
				h.close()
			})
		})
	}
}

func TestS16_EventsKeepTheirOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) {
			toolserver.AddSubscription(s, "burst", "Sends 100 events.", toolserver.ToolOptions{},
				func(context.Context, none) (string, *place, error) { return "", new(place), nil },
				func(ctx context.Context, sub *toolserver.Subscription[place]) error {
					for {
						n := sub.State().Next
						if err := sub.Send(ctx, toolserver.Event{Text: fmt.Sprint(n), Final: n == 99}, place{n + 1}); err != nil || n == 99 {
							return err
						}
					}
				})
		})
		h.answer = func(n int, _ received) (*http.Response, error) {
			switch {
			case n%7 == 3:
				return status(500), nil
			case n%11 == 3:
				return nil, nil
			}
			return status(200), nil
		}
		h.call("burst", "c1", "{}")
		h.opened()
		for n := range 100 {
			if n == 50 {
				h.end()
				h.begin()
			}
			if e := h.event(); e.Text != fmt.Sprint(n) {
				t.Fatalf("event %s, want %d", e.Text, n)
			}
		}
		h.close()
	})
}

// TestSubscriptionWaitsForRoom has a producer that is faster than its runtime.
func TestSubscriptionWaitsForRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		sent := 0
		toolserver.AddSubscription(rt.server, "flood", "Sends as fast as it can.", toolserver.ToolOptions{},
			func(context.Context, none) (string, *place, error) { return "", new(place), nil },
			func(ctx context.Context, sub *toolserver.Subscription[place]) error {
				for ; sub.Send(ctx, toolserver.Event{Text: "x"}, place{}) == nil; sent++ {
				}
				return nil
			})
		rt.answer = func(int, received) (*http.Response, error) { return status(503), nil }
		rt.call("flood", "c1", "{}")
		<-time.After(time.Hour)
		synctest.Wait()
		if sent != 999 { // and the result
			t.Errorf("%d events are waiting", sent)
		}
		rt.post("/close_thread", `{"thread_id":"thread-1"}`)
		rt.close()
	})
}

func TestSubscriptionEndsWithItsProducer(t *testing.T) {
	for name, c := range map[string]struct {
		produce func() error
		want    string
	}{
		"returns": {func() error { return nil }, "The subscription has ended."},
		"fails":   {func() error { return errors.New("the feed is closed") }, "Error: the feed is closed"},
		"panics":  {func() error { panic("canary") }, "Error: the tool failed unexpectedly"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rt := newRuntime(t, toolserver.Options{Status: true})
				toolserver.AddSubscription(rt.server, "short", "Ends soon.", toolserver.ToolOptions{},
					func(context.Context, none) (string, *place, error) { return "", new(place), nil },
					func(context.Context, *toolserver.Subscription[place]) error {
						<-time.After(time.Second)
						return c.produce()
					})
				rt.call("short", "c1", "{}")
				rt.opened()
				if e := rt.event(); e.Text != c.want || !e.Final {
					t.Errorf("event %+v", e)
				}
				rt.close()
			})
		})
	}
}

// TestSubscriptionWithoutItsTool restarts a server without the tool of an open subscription.
func TestSubscriptionWithoutItsTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) { addFeed(s, nil) })
		h.call("feed", "c1", `{"from":0}`)
		h.opened()
		h.end()
		h.tools = addTools
		h.begin()
		if e := h.event(); !e.Final || !strings.HasPrefix(e.Text, "Error: ") {
			t.Errorf("event %+v", e)
		}
		h.close()
	})
}

func TestPlainToolsOpenNoSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		toolserver.Add(rt.server, "liar", "Says it is a subscription.", func(context.Context, none) (*agentproto.ToolResult, error) {
			text := "x"
			return &agentproto.ToolResult{Text: &text, Subscription: true}, nil
		})
		rt.call("liar", "c1", "{}")
		m := rt.next()
		if m.Callback.(*agentproto.ToolResult).Subscription {
			t.Errorf("nobody serves the subscription of %s", m.body)
		}
		rt.close()
	})
}
