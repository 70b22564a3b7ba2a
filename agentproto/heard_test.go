package agentproto

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// heard returns the stored events of a call's subscription.
func (h *host) heard(key CallKey) (Events, bool) {
	synctest.Wait()
	e, found, err := EventsOf(h.t.Context(), h.App(), key)
	if err != nil {
		h.t.Fatal(err)
	}
	return e, found
}

// TestHeard checks that the last events are stored under their numbers, as many as there is room for. None are stored for a call
// whose conversation receives them.
func TestHeard(t *testing.T) {
	long := strings.Repeat("x", HeardBytes/4)
	for _, x := range []struct {
		name  string
		texts []string
		want  int // how many of the last ones are kept
	}{
		{"none", nil, 0},
		{"few", []string{"a", "b", ""}, 3},
		{"too many", slices.Repeat([]string{"a"}, HeardEvents+7), HeardEvents},
		{"too large", slices.Repeat([]string{long}, 6), 4},
		{"one that is too large", []string{"a", strings.Repeat("x", HeardBytes+1)}, 1},
		{"and one behind it", []string{strings.Repeat("x", HeardBytes+1), "a"}, 1},
	} {
		t.Run(x.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := startProgram(t, ProgramOptions{})
				h.call(k1, nil)
				if e, found := h.heard(k1); found {
					t.Errorf("of a pending call: %+v", e)
				}
				h.deliver(k1, subscribed("x"))
				for i, text := range x.texts {
					if i < 10 { // a repetition of these is not a new event
						h.deliver(k1, news(text, fmt.Sprint(i)))
					}
					h.deliver(k1, news(text, fmt.Sprint(i)))
				}
				e, found := h.heard(k1)
				if !found || e.Last != len(x.texts) || e.Ended || e.Operation != "op" || !slices.Equal(e.Texts, x.texts[len(x.texts)-x.want:]) {
					t.Errorf("kept are %d of %d, %t, %.200v", len(e.Texts), e.Last, e.Ended, e)
				}
				h.deliver(k1, final("end"))
				if e, _ := h.heard(k1); !e.Ended || e.Last != len(x.texts)+1 || e.Texts[len(e.Texts)-1] != "end" {
					t.Errorf("at the end: %d, %t, %.200v", e.Last, e.Ended, e.Texts)
				}
				h.stop()
			})
		})
	}
	synctest.Test(t, func(t *testing.T) {
		h := startProgram(t, ProgramOptions{})
		h.call(k1, func(c *Call) { c.Told = true })
		h.deliver(k1, subscribed("x"))
		h.deliver(k1, news("a", ""))
		if e, found := h.heard(k1); found {
			t.Errorf("of a conversation: %+v", e)
		}
		h.stop()
	})
}

// TestSubscriptionsOf lists a thread's open subscriptions, including those whose calls the thread knows only from their results.
// The reason for the end of a subscription follows its events.
func TestSubscriptionsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startProgram(t, ProgramOptions{Retain: retaining.Retain})
		open := func() (ids []string) {
			t.Helper()
			synctest.Wait()
			all, err := SubscriptionsOf(t.Context(), h.App(), k1.GroupID)
			if err != nil {
				t.Error(err)
			}
			for _, e := range all {
				ids = append(ids, e.Key.ID)
			}
			return ids
		}
		k3 := CallKey{k1.GroupID, "3"}
		for _, k := range []CallKey{k1, k3} {
			h.call(k, nil)
			r := subscribed("x")
			r.Result.ID = k.ID
			h.deliver(k, r)
		}
		h.call(CallKey{k1.GroupID, "4"}, nil)
		if got := open(); !slices.Equal(got, []string{"1", "3"}) {
			t.Errorf("open are %v", got)
		}
		time.Sleep(5 * retaining.Retain)
		if got := open(); !slices.Equal(got, []string{"1", "3"}) {
			t.Errorf("after a long time open are %v", got)
		}
		h.deliver(k1, Event{Kind: CallLost, Reason: "gone"})
		h.deliver(k3, Event{Kind: SubscriptionCancelled})
		if got := open(); len(got) != 0 {
			t.Errorf("at the end open are %v", got)
		}
		if e, _ := h.heard(k1); e.Last != 1 || !e.Ended || !strings.Contains(e.Texts[0], "lost the subscription: gone") {
			t.Errorf("one that was lost: %+v", e)
		}
		if e, _ := h.heard(k3); e.Last != 0 || !e.Ended {
			t.Errorf("one that was cancelled: %+v", e)
		}
		h.stop()
	})
}

// TestHeardIsForgotten checks that the events of an ended subscription are bounded as unread results are. They are deleted after
// an hour, earlier if their thread has too many, and together with the call.
func TestHeardIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		opts := retaining
		opts.Results, opts.Retain = 3*countedResult, 3*time.Hour
		h := startProgram(t, opts)
		keys := []CallKey{{"thread", "1"}, {"thread", "3"}, {"thread", "4"}, {"thread", "5"}}
		for i, k := range keys {
			h.call(k, nil)
			r := subscribed("x")
			r.Result.ID = k.ID
			h.deliver(k, r)
			e := news(strings.Repeat("x", countedResult), "")
			e.Subscription.ToolCallID = k.ID
			h.deliver(k, e)
			if i < len(keys)-1 {
				h.deliver(k, Event{Kind: SubscriptionCancelled})
				synctest.Wait() // so that they end in order
			}
		}
		texts := func() (n []int) {
			for _, k := range keys {
				e, found := h.heard(k)
				if !found {
					n = append(n, -1)
				} else {
					n = append(n, len(e.Texts))
				}
			}
			return n
		}
		if got := texts(); !slices.Equal(got, []int{1, 1, 1, 1}) {
			t.Errorf("three that have ended: %v", got)
		}
		h.deliver(keys[3], Event{Kind: SubscriptionCancelled})
		if got := texts(); !slices.Equal(got, []int{0, 1, 1, 1}) {
			t.Errorf("four that have ended: %v", got)
		}
		if e, _ := h.heard(keys[0]); e.Last != 1 {
			t.Errorf("of the first: %+v", e)
		}
		time.Sleep(unreadResult + time.Minute)
		if got := texts(); !slices.Equal(got, []int{0, 0, 0, 0}) {
			t.Errorf("an hour later: %v", got)
		}
		time.Sleep(2 * opts.Retain)
		if got := texts(); !slices.Equal(got, []int{-1, -1, -1, -1}) {
			t.Errorf("when the calls are forgotten: %v", got)
		}
		h.stop()
	})
}

// TestHeardMoves checks that a subscription that moves takes its events along and continues their numbers.
func TestHeardMoves(t *testing.T) {
	s := callState{
		State: Completed, Cause: ByResult, More: &more{Sub: &subscription{Key: k1}},
		Heard: &heard{Operation: "op", Last: 7, Texts: []string{"six", "seven"}},
	}
	taken := turn{machine{}, &s, new(doing)}.snapshot(&order{Move: &move{}})
	var there callState
	turn{machine{}, &there, new(doing)}.arrive(&event{Order: &order{Move: &move{Snapshot: taken}}})
	if there.Heard == nil {
		t.Fatal("nothing arrived")
	}
	there.Heard.keep("eight")
	if e := there.Heard.events(k1); e.Last != 8 || e.Operation != "op" || !slices.Equal(there.Heard.Texts, []string{"six", "seven", "eight"}) || len(s.Heard.Texts) != 2 {
		t.Errorf("%+v arrived", there.Heard)
	}
}
