package conversation

import (
	"fmt"
	"strings"
	"testing"
)

// A busyThread is a thread whose model is being asked. It records the thread's actions, notices and results.
type busyThread struct {
	m       machine
	s       State
	did     string
	notices []string
	texts   []string // of results
}

func newBusyThread(limits Limits) *busyThread {
	b := &busyThread{m: machine{limits.withDefaults()}}
	b.s = State{Session: &Session{ID: "t"}, Asking: true, Used: map[string]bool{}, Undone: map[uint64]Action{}}
	b.s.Subscriptions = []Subscription{{Call: Call{ID: "a"}}, {Call: Call{ID: "b"}}}
	return b
}

func (b *busyThread) step(in input) {
	var do doing
	b.m.step(&b.s, in, &do)
	for _, a := range do.Calls() {
		switch a.Kind {
		case HoldEvents:
			b.did += "h"
		case TakeEvents:
			b.did += "t"
		}
	}
	for _, m := range messages(&do) {
		switch m.Kind {
		case Notice:
			b.notices = append(b.notices, m.Text)
		case Result:
			b.texts = append(b.texts, m.Result.Content[0].Text)
		}
	}
}

func (b *busyThread) event(call, text string, final bool) {
	b.step(input{Kind: happened, Event: &Event{Call: Call{ID: call}, Text: text, Inline: true, Final: final}})
}

// TestDeferredBound checks that a thread leaves out events above its bound, and that the next event of the same
// subscription reports how many. Results and ends of subscriptions are never left out. The thread asks the host
// to hold events before it leaves one out.
func TestDeferredBound(t *testing.T) {
	b := newBusyThread(Limits{Deferred: 2})
	b.s.Deferred = []Event{{Call: Call{ID: "r"}, Result: textResult("r", "late")}}
	for i := range 37 {
		b.event("a", fmt.Sprint(i), false)
		if wait := len(b.s.Deferred) - 1; (wait >= 2) != strings.HasSuffix(b.did, "h") {
			t.Errorf("%d events wait, asked %q", wait, b.did)
		}
	}
	b.event("b", "other", false)
	b.event("a", "end", true)
	if b.did != strings.Repeat("h", 32) || b.s.Lost != 6 {
		t.Errorf("asked %q, %d left out", b.did, b.s.Lost)
	}
	b.step(input{Kind: interrupted})
	if n := len(b.texts); n != 34 || b.texts[0] != "late" || b.texts[32] != "31" || b.texts[33] != "[5 events were left out: the tool sent more than the runtime takes]\nend" {
		t.Errorf("the model is told %q", b.texts)
	}
	if !strings.HasSuffix(b.did, "ht") || fmt.Sprint(b.notices) != "[6 events were left out: more came in than may wait.]" || len(b.s.Subscriptions) != 1 {
		t.Errorf("asked %q, notices %q, subscriptions %v", b.did, b.notices, b.s.Subscriptions)
	}
	b.event("b", "after", false)
	if last := b.texts[len(b.texts)-1]; last != "[1 event was left out: the tool sent more than the runtime takes]\nafter" {
		t.Errorf("the other subscription tells %q", last)
	}
}

// TestDeferredBytes checks that texts count by their bytes, and that cancelling a subscription makes room.
func TestDeferredBytes(t *testing.T) {
	b := newBusyThread(Limits{DeferredBytes: 1700})
	for range 9 {
		b.event("a", strings.Repeat("x", 600), false)
	}
	if len(b.s.Deferred) != 8 || b.s.LeftOut["a"] != 1 || b.did != "hhhhhhh" {
		t.Errorf("%d wait, %v left out, asked %q", len(b.s.Deferred), b.s.LeftOut, b.did)
	}
	b.step(input{Kind: unsubscribed, Call: "a"})
	if len(b.s.Deferred) != 0 || len(b.s.LeftOut) != 0 || b.did != "hhhhhhht" {
		t.Errorf("%d wait, %v left out, asked %q", len(b.s.Deferred), b.s.LeftOut, b.did)
	}
}

// TestDeferredMoves checks that a thread that moves takes its deferred state along, as a copy.
func TestDeferredMoves(t *testing.T) {
	s := State{LeftOut: map[string]int{"a": 2}, Holding: true}
	moved := s.copy()
	if s.LeftOut["a"] = 7; moved.LeftOut["a"] != 2 || !moved.Holding {
		t.Errorf("%v moved, holding %v", moved.LeftOut, moved.Holding)
	}
}
