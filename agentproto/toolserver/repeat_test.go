package toolserver_test

import (
	"context"
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

const otherURL, thirdURL = "https://runtime.example/rap/v1/cb/k2/again", "https://runtime.example/rap/v1/cb/k3/again"

// wantAt checks that the next message is a result with the given text at the given address.
func (rt *runtime) wantAt(url, text string) {
	rt.t.Helper()
	m := rt.next()
	r, ok := m.Callback.(*agentproto.ToolResult)
	if !ok || m.url != url || r.String() != text {
		rt.t.Errorf("%s came to %s, want %q at %s", m.body, m.url, text, url)
	}
}

// answers sets the responses to deliveries from now on.
func (rt *runtime) answers(f func(n int, m received) (*http.Response, error)) {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	rt.answer = f
}

// addSlow adds a tool that takes a minute and counts its runs, and a tool with a large result.
func addSlow(s *toolserver.Server, runs *atomic.Int32) {
	type in struct {
		Text string `json:"text"`
	}
	toolserver.Add(s, "slow", "Takes a while.", func(ctx context.Context, in in) (string, error) {
		runs.Add(1)
		select {
		case <-time.After(time.Minute):
			return in.Text, nil
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	})
	toolserver.Add(s, "large", "Says much.", func(context.Context, none) (string, error) { return strings.Repeat("x", 100_000), nil })
}

const (
	oneArgs   = `{"text":"one"}`
	firstURL  = "https://runtime.example/rap/v1/cb/k1/c1"
	otherCall = "Error: the id of this call is that of another call, with another operation, user or arguments"
)

// TestA06_OtherCallbackURL invokes a key again with another callback_url: while the call runs, while
// the result is being delivered, and after it was delivered, with restarts in between.
func TestA06_OtherCallbackURL(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int32
				h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) { addSlow(s, &runs) })
				again := func() {
					if synctest.Wait(); restart {
						h.end()
						h.begin()
					}
				}
				h.call("slow", "c1", oneArgs)
				again()
				h.call("slow", "c1", ` { "text" : "one" } `, callback(otherURL)) // while it runs
				h.call("slow", "c1", oneArgs)                                    // a late copy of the first
				again()
				h.wantAt(otherURL, "one")
				again()
				h.call("slow", "c1", oneArgs, callback(otherURL)) // as after a lost acknowledgement
				h.call("slow", "c1", oneArgs, callback(thirdURL), callID("x"))
				m := h.next()
				if r, ok := m.Callback.(*agentproto.ToolResult); !ok || m.url != thirdURL || r.String() != "one" || r.CallID == nil || *r.CallID != "x" {
					t.Errorf("%s came to %s", m.body, m.url)
				}
				again()
				h.call("slow", "c1", oneArgs, callback(thirdURL), callID("x"))
				h.call("slow", "c1", oneArgs, callback(otherURL))
				// The first address is down, so the result waits for an hour.
				synctest.Wait()
				h.answers(func(_ int, m received) (*http.Response, error) {
					if m.url == otherURL {
						return status(503, "Retry-After", "3600"), nil
					}
					return status(200), nil
				})
				h.call("slow", "c2", oneArgs, callback(otherURL))
				<-time.After(10 * time.Minute)
				again()
				start := time.Now()
				h.call("slow", "c2", oneArgs, callback(thirdURL))
				m = h.next()
				if r, ok := m.Callback.(*agentproto.ToolResult); !ok || m.url != thirdURL || r.String() != "one" {
					t.Errorf("%s came to %s", m.body, m.url)
				}
				if strings.Count(m.id, "_") != 2 {
					t.Errorf("it has the webhook-id %s that it had at the address before: a runtime that has taken it there drops it", m.id)
				}
				if waited := time.Since(start); waited > time.Minute {
					t.Errorf("it waited for %v", waited)
				}
				synctest.Wait()
				h.answers(nil)
				h.call("large", "c3", "{}")
				h.wantAt(strings.Replace(firstURL, "c1", "c3", 1), strings.Repeat("x", 100_000))
				again()
				h.call("large", "c3", "{}", callback(otherURL))
				h.wantAt(otherURL, "Error: the call has ended before, and its result is no longer kept")
				if n := runs.Load(); !restart && n != 2 {
					t.Errorf("ran %d times", n)
				}
				h.close()
			})
		})
	}
}

// TestA06_OtherCallbackURLOfSubscription invokes the key of an open subscription again with another
// callback_url while no delivery is pending. The test fails if the invocation is not answered, or if
// events still go to the first address.
func TestA06_OtherCallbackURLOfSubscription(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) { addFeed(s, nil) })
			h.call("feed", "c1", `{"from":8}`)
			h.opened()
			if synctest.Wait(); restart {
				h.end()
				h.begin()
			}
			h.call("feed", "c1", `{"from":8}`, callback(otherURL))
			m := h.next()
			if r, ok := m.Callback.(*agentproto.ToolResult); !ok || !r.Subscription || m.url != otherURL {
				t.Errorf("%s came to %s", m.body, m.url)
			}
			for n := 8; n <= 9; n++ {
				m := h.next()
				if e, ok := m.Callback.(*agentproto.SubscriptionEvent); !ok || e.Text != fmt.Sprint(n) || m.url != otherURL {
					t.Errorf("%s came to %s, want event %d", m.body, m.url, n)
				}
			}
			h.close()
		})
	}
}

// TestA06_OtherArguments uses the ID of a call for a different call. That one gets an error result,
// which never replaces the result of the first call.
func TestA06_OtherArguments(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var runs atomic.Int32
				h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) { addSlow(s, &runs) })
				again := func() {
					if synctest.Wait(); restart {
						h.end()
						h.begin()
					}
				}
				const two = `{"text":"two"}`
				h.call("slow", "c1", oneArgs)
				for range 2 {
					h.call("slow", "c1", two) // at the same address
					again()
				}
				h.call("slow", "c1", two, callback(otherURL))
				h.wantAt(otherURL, otherCall) // at once
				again()
				h.wantAt(firstURL, "one")
				h.wantAt(firstURL, otherCall)
				again()
				h.call("slow", "c1", two)
				h.call("slow", "c1", two, callback(otherURL))
				h.call("slow", "c1", oneArgs)
				h.call("large", "c1", "{}")
				h.wantAt(firstURL, otherCall)
				h.call("slow", "u1", oneArgs, user("ada"))
				h.call("slow", "u1", oneArgs, user("bob"), callback(otherURL))
				h.wantAt(otherURL, otherCall)
				h.call("slow", "u1", oneArgs, callback(otherURL)) // without a user
				h.wantAt(otherURL, "one")
				h.call("slow", "c1", oneArgs, callback(thirdURL))
				h.wantAt(thirdURL, "one")
				h.call("slow", "c2", oneArgs) // cancelled
				h.post("/cancel_tool_call", `{"thread_id":"thread-1","tool_call_id":"c2"}`)
				again()
				h.call("slow", "c2", oneArgs, callback(thirdURL))
				h.wantAt(thirdURL, "Error: the call has ended before, and its result is no longer kept")
				h.close()
			})
		})
	}
}

// TestA06_AddressOfASubscription has a runtime repeat a call from another address while the call
// sends events. The result arrives there first.
func TestA06_AddressOfASubscription(t *testing.T) {
	t.Parallel()
	for _, restart := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			h := newHouse(t, toolserver.Options{}, func(s *toolserver.Server) {
				toolserver.AddSubscription(s, "tick", "Ticks.", toolserver.ToolOptions{},
					func(context.Context, none) (string, *int, error) { return "open", new(int), nil },
					func(ctx context.Context, sub *toolserver.Subscription[int]) error {
						for n := sub.State(); n < 4; n++ {
							select {
							case <-time.After(time.Hour):
							case <-ctx.Done():
								return context.Cause(ctx)
							}
							if err := sub.Send(ctx, toolserver.Event{Text: fmt.Sprint("tick ", n), Final: n == 3}, n+1); err != nil {
								return err
							}
						}
						return nil
					})
			})
			want := func(url, text string) {
				t.Helper()
				if m := h.next(); m.url != url || m.Callback.(*agentproto.SubscriptionEvent).Text != text {
					t.Errorf("%s at %s, want %q at %s", m.body, m.url, text, url)
				}
			}
			h.call("tick", "c1", "{}")
			h.wantAt(firstURL, "open")
			want(firstURL, "tick 0")
			synctest.Wait()
			gone := true
			h.answers(func(_ int, m received) (*http.Response, error) {
				if m.url == firstURL && gone {
					return nil, errRefusedConnection
				}
				return status(200), nil
			})
			<-time.After(90 * time.Minute) // an event is waiting
			if restart {
				h.end()
				h.begin()
			}
			h.call("tick", "c1", "{}", callback(otherURL))
			h.wantAt(otherURL, "open")
			want(otherURL, "tick 1")
			want(otherURL, "tick 2")
			want(otherURL, "tick 3")
			h.close()
		})
	}
}

// TestA06_AfterMigration repeats calls of a migrated session at its new instance with other
// addresses: one call that runs, and one that has ended.
func TestA06_AfterMigration(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var runs atomic.Int32
		m := newMove(t, func(s *toolserver.Server) { addTools(s); addSlow(s, &runs) })
		m.call("add", "c1", `{"a":1,"b":2}`)
		if got := m.nextResult(); got != "3" {
			t.Errorf("result %q", got)
		}
		m.call("slow", "c2", oneArgs)
		m.call("slow", "c2", oneArgs, callback(otherURL))
		m.mustMigrate()
		m.dst.call("add", "c1", `{"a":1,"b":2}`)
		m.dst.call("add", "c1", `{"a":1,"b":2}`, callback(thirdURL))
		m.dst.wantAt(thirdURL, "3")
		m.dst.call("add", "c1", `{"a":2,"b":2}`, callback(thirdURL))
		m.dst.wantAt(thirdURL, otherCall)
		m.dst.wantAt(otherURL, "one")
		m.dst.call("slow", "c2", oneArgs, callback(thirdURL))
		m.dst.wantAt(thirdURL, "one")
		m.close()
		m.dst.close()
	})
}

// TestKeptResultsAreBounded has more results than the server keeps. It keeps the latest, and a
// repeated invocation of an older call gets an error.
func TestKeptResultsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := newRuntime(t, toolserver.Options{})
		toolserver.Add(rt.server, "sixty", "Says 60 kB.", func(context.Context, none) (string, error) { return strings.Repeat("x", 60_000), nil })
		const n = 700
		for i := range n {
			rt.call("sixty", fmt.Sprint("c", i), "{}")
			rt.next()
			synctest.Wait()
			<-time.After(time.Second)
		}
		if kept := toolserver.KeptResults(rt.server); kept > 32<<20 || kept < 31<<20 {
			t.Errorf("%d bytes are kept", kept)
		}
		rt.call("sixty", "c0", "{}", callback(otherURL))
		rt.wantAt(otherURL, "Error: the call has ended before, and its result is no longer kept")
		rt.call("sixty", fmt.Sprint("c", n-1), "{}", callback(otherURL))
		rt.wantAt(otherURL, strings.Repeat("x", 60_000))
		<-time.After(25 * time.Hour) // each call removes two expired ones
		for i := range n {
			rt.call("sixty", fmt.Sprint("d", i), "{}")
			rt.next()
			synctest.Wait()
		}
		if kept := toolserver.KeptResults(rt.server); kept > 32<<20 {
			t.Errorf("%d bytes are kept", kept)
		}
		rt.close()
	})
}
