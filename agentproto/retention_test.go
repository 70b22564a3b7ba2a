package agentproto

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// retaining configures a program that remembers finished calls for an hour.
var retaining = ProgramOptions{Retain: time.Hour, Idle: 3 * time.Hour}

func (h *host) closeThread(id string) {
	h.t.Helper()
	if err := h.CloseThread(context.Background(), id); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) want(key CallKey, story string) {
	h.t.Helper()
	synctest.Wait()
	if got := h.story(key); got != story {
		h.t.Errorf("%v: %q, want %q", key, got, story)
	}
}

// TestKeyIsUsedAgain uses the key of a forgotten call. The test fails if the key stays taken, if it is free too early, or if a
// message to the first call affects the second: the callback URL of the first is valid for days.
func TestKeyIsUsedAgain(t *testing.T) {
	of := func(incarnation uint64, e Event) Event {
		e.Incarnation = incarnation
		return e
	}
	for _, x := range []struct {
		name   string
		first  Event
		late   []Event
		second string // effects on the second call of the late messages, and then of its result
	}{
		{"result", result("a"), []Event{result("b"), oauth("u"), {Kind: Malformed, Reason: "?"}}, "dropped(late) dropped(late) dropped(late) resolved(tool_result)"},
		{"refusal", Event{Kind: Refused, Reason: "no"}, []Event{subscribed("b"), {Kind: CallLost}}, "dropped(late) dropped(late) resolved(tool_result)"},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const first, second = 1 << 16, 2 << 16
				h := startProgram(t, retaining)
				h.call(k1, func(c *Call) { c.Incarnation = first })
				h.deliver(k1, of(first, x.first))
				time.Sleep(29 * time.Minute)
				if err := h.Call(t.Context(), &Call{Key: k1}); !errors.Is(err, dataflow.ErrDuplicateKey) {
					t.Errorf("after 29 minutes: %v", err)
				}
				time.Sleep(32 * time.Minute)
				before := h.story(k1)
				if was, err := h.Has(t.Context(), k1); was || err != nil {
					t.Errorf("after an hour the call is known: %t, %v", was, err)
				}
				h.call(k1, func(c *Call) { c.Incarnation = second })
				for _, e := range x.late {
					h.deliver(k1, of(first, e))
				}
				h.deliver(k1, of(second, result("c")))
				r, err := h.Await(t.Context(), k1)
				if err != nil || r.Result.String() != "c" {
					t.Errorf("the second call has %+v, %v", r, err)
				}
				h.want(k1, before+" "+x.second)
				h.stop()
			})
		})
	}
}

// TestOtherSubscription fails if an event for the subscription of a forgotten call is delivered as one of the next call.
func TestOtherSubscription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startProgram(t, retaining)
		h.call(k1, func(c *Call) { c.Incarnation = 2 << 16 })
		h.deliver(k1, subscribed("a"))
		for _, incarnation := range []uint64{1 << 16, 0, 2<<16 + 3} { // the last is of a call that has moved
			e := news(fmt.Sprint(incarnation>>16), "")
			e.Incarnation = incarnation
			h.deliver(k1, e)
		}
		h.want(k1, "resolved(tool_result) dropped(unsubscribed) event(0) event(2)")
		h.stop()
	})
}

// TestLongCallIsNotForgotten has a call that lives longer than finished calls are remembered. The test fails if a thread forgets
// a call that it has to close, or if a key can be used again before its call is over.
func TestLongCallIsNotForgotten(t *testing.T) {
	for _, open := range []bool{false, true} {
		t.Run(fmt.Sprint("subscribed ", open), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := startProgram(t, retaining)
				h.call(k1, func(c *Call) { c.Lifetime = 100 * time.Hour })
				want := "dropped(repeated) resolved(thread closed)"
				if open {
					h.deliver(k1, subscribed("a"))
					want = "resolved(tool_result) event(x) event(x) event(x) event(x) event(x) dropped(repeated) ended"
				}
				for range 5 {
					time.Sleep(2 * time.Hour)
					if open {
						h.deliver(k1, news("x", ""))
					}
				}
				h.call(k1, nil)
				synctest.Wait()
				h.closeThread(k1.GroupID)
				h.want(k1, want)
				h.stop()
			})
		})
	}
}

// TestSilentSubscriptionEnds fails if a subscription that its server never ends is kept forever, or if one ends although
// events arrive.
func TestSilentSubscriptionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startProgram(t, retaining)
		h.call(k1, nil)
		h.deliver(k1, subscribed("a"))
		time.Sleep(2 * time.Hour)
		h.deliver(k1, news("x", ""))
		time.Sleep(2 * time.Hour)
		h.want(k1, "resolved(tool_result) event(x)")
		time.Sleep(2 * time.Hour)
		h.want(k1, "resolved(tool_result) event(x) event(Error: the tool server lost the subscription: it was silent for 3h0m0s) ended cancel")
		h.stop()
	})
}

// TestClosedThreadIsRemembered fails if a call starts in a thread that was just closed, or if the thread stays closed forever.
func TestClosedThreadIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startProgram(t, retaining)
		h.closeThread("thread")
		time.Sleep(59 * time.Minute)
		h.call(k1, nil)
		h.want(k1, "resolved(thread closed)")
		time.Sleep(2 * time.Minute)
		other := CallKey{"thread", "2"}
		h.call(other, nil)
		h.deliver(other, result("a"))
		h.want(other, "resolved(tool_result)")
		h.stop()
	})
}

// TestMovedCallIsForwarded fails if a host forgets where a session went while its callback URLs are valid.
func TestMovedCallIsForwarded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		m := &movers{t: t}
		opts := retaining
		m.d = startProgram(t, opts)
		opts.Forward = func(ctx context.Context, f *Forwarded) { m.must(m.d.Relay(ctx, recode(t, f))) }
		m.s = startProgram(t, opts)
		m.s.call(k1, func(c *Call) { c.Lifetime, c.Incarnation = 30*24*time.Hour, 5<<16 })
		m.must(m.s.Freeze(ctx, "thread", "m"))
		m.export("m")
		m.must(m.d.Commit(ctx, "thread", "m"))
		m.must(m.s.Commit(ctx, "thread", "m"))
		time.Sleep(6 * 24 * time.Hour)
		r := result("a")
		r.Incarnation = 5 << 16
		m.s.deliver(k1, r)
		m.d.want(k1, "resolved(tool_result)")
		time.Sleep(2 * 24 * time.Hour)
		m.s.deliver(k1, r)
		m.s.want(k1, "departed dropped(late)")
		m.s.stop()
		m.d.stop()
	})
}

// TestNothingIsLeftOfCalls makes calls that are resolved and later forgotten: in their own threads and in one that is never
// closed, with prompts and with subscriptions. The test fails if anything of each call is kept forever.
func TestNothingIsLeftOfCalls(t *testing.T) {
	const rounds, calls = 30, 2_000
	synctest.Test(t, func(t *testing.T) {
		p := NewProgram(ProgramOptions{
			Retain: time.Hour, Dispatch: func(context.Context, *Call) DispatchOutcome { return DispatchOutcome{Accepted: true, Watch: "server"} },
			Prompt: func(ctx context.Context, _ *Prompt) {}, Answer: func(context.Context, *Answer) {},
			Watch: func(context.Context, *Watched) string { return "" },
		})
		if err := p.Start(t.Context()); err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for {
				if _, err := p.NextEffect(context.Background()); err != nil {
					return
				}
			}
		}()
		var first, last int64
		for round := range rounds {
			for i := range calls {
				key := CallKey{"thread", fmt.Sprint(round, " ", i)}
				if i%2 == 0 {
					key.GroupID = key.ID
				}
				call := &Call{Key: key, Invocation: &Invocation{GroupID: key.GroupID, ID: key.ID}, Incarnation: uint64(round*calls+i+1) << 16}
				events := []Event{result("a")}
				switch i % 3 {
				case 1:
					events = []Event{choice("r"), answer1("r", 1), result("a")}
				case 2:
					events = []Event{subscribed("a"), news("x", "id"), final("y")}
				}
				if err := p.Call(t.Context(), call); err != nil {
					t.Fatal(err)
				}
				for _, e := range events {
					if err := p.Deliver(t.Context(), key, e); err != nil {
						t.Fatal(err)
					}
				}
			}
			time.Sleep(25 * time.Hour) // an ended detour is remembered that long
			synctest.Wait()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			if round == rounds/3 {
				first = int64(m.HeapAlloc)
			}
			last = int64(m.HeapAlloc)
			t.Logf("round %d: %d kB", round, last>>10)
		}
		// The size of tables varies by some hundred kB.
		if n := int64(rounds-1-rounds/3) * calls; last-first > 50*n {
			t.Errorf("after %d calls more, %d bytes more are kept", n, last-first)
		}
		if err := p.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
		<-read
	})
}
