package conversation

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// messages returns the messages that a step wrote.
func messages(do *doing) []Message {
	var all []Message
	for _, e := range do.Emitted() {
		if e.Line != nil && e.Line.Message != nil {
			all = append(all, *e.Line.Message)
		}
	}
	return all
}

// A book is a thread with its stored messages.
type book struct {
	t    testing.TB
	m    machine
	s    State
	kept map[int]Message
	over time.Duration // when the thread is forgotten, if ever

	bound     int // limit on what a model is shown; more is summarized
	summaries int

	// sums checks the sum of messages without reading them: a model may be asked while another action is about to
	// write one.
	sums bool
}

func newBook(t testing.TB, l Limits) *book {
	b := &book{t: t, m: machine{l.withDefaults()}, s: newState(), kept: map[int]Message{}}
	b.tell(input{Kind: opened, Session: &Session{ID: "t"}})
	return b
}

// tell gives the thread an input and lets every action that follows succeed. The model answers with the replies in
// say, then with "ok".
func (b *book) tell(in input, say ...*Reply) {
	b.t.Helper()
	var do doing
	b.m.step(&b.s, in, &do)
	b.follow(&do)
	for calls := do.Calls(); len(calls) > 0; calls = calls[1:] {
		var o Outcome
		if calls[0].Kind == Ask {
			o.Reply = &Reply{Text: "ok"}
			rest := say
			if len(say) > 0 {
				o.Reply, rest = say[0], say[1:]
			}
			if !b.sums {
				b.read(calls[0].Kept, calls[0].Messages)
			}
			if v := show(b.history(calls[0].Messages), calls[0].Kept, b.bound); v.cut > 0 && b.s.Asking && calls[0].Round == b.s.Round {
				b.summaries++
				rest = say
				o = Outcome{Summary: &Summary{Text: fmt.Sprint("summary ", b.summaries), From: v.cut}}
			}
			say = rest
		}
		var next doing
		b.m.answer(&b.s, calls[0], o, &next)
		b.follow(&next)
		calls = append(calls, next.Calls()...)
	}
}

func (b *book) follow(do *doing) {
	for _, e := range do.Emitted() {
		switch {
		case e.Line == nil:
		case e.Line.Message != nil:
			b.kept[e.Line.N] = *e.Line.Message
		default:
			if _, ok := b.kept[e.Line.N]; !ok {
				b.t.Errorf("message %d is dropped twice", e.Line.N)
			}
			delete(b.kept, e.Line.N)
		}
	}
	if d, set := do.ForgetsAfter(); set {
		b.over = d
	}
	if b.s.over() || b.s.Session == nil {
		return
	}
	bytes := 0
	for n, m := range b.kept {
		if n != 0 && !slices.Contains(b.s.Kept.alone(), n) {
			bytes += m.size()
		}
	}
	if bytes != b.s.Bytes {
		b.t.Fatalf("the messages have %d bytes, the thread counts %d", bytes, b.s.Bytes)
	}
}

// history returns the stored messages before number to.
func (b *book) history(to int) (all []Message) {
	for _, n := range slices.Sorted(maps.Keys(b.kept)) {
		if n < to {
			all = append(all, b.kept[n])
		}
	}
	return all
}

// read reads the history as an agent does and asserts that a model is shown all of it.
func (b *book) read(k Kept, to int) {
	b.t.Helper()
	open, said, read := map[string]bool{}, 0, 0
	for n := k.next(0); n < to; n = k.next(n + 1) {
		m, ok := b.kept[n]
		if !ok {
			b.t.Fatalf("message %d is said to be kept", n)
		}
		read++
		for _, c := range m.Calls {
			open[c.ID] = true
		}
		if m.Kind == Result {
			if !open[m.Result.ID] {
				b.t.Fatalf("the result of %q is there without its call", m.Result.ID)
			}
			delete(open, m.Result.ID)
		}
		if m.Kind == User {
			said++
		}
	}
	if read != len(b.kept) {
		b.t.Errorf("%d messages are kept, and %d of them read", len(b.kept), read)
	}
	if len(open) > 0 || said == 0 {
		b.t.Errorf("without results: %v, said by the user: %d", open, said)
	}
}

// resolve resolves a call with a result of n bytes.
func (b *book) resolve(id string, n int, say ...*Reply) {
	b.tell(input{Kind: resolved, Call: id, Resolution: resolution(strings.Repeat("x", n))}, say...)
}

// TestHistoryBound checks that an endless thread stores as much as its limit allows, including calls with their
// results and the user's last words.
func TestHistoryBound(t *testing.T) {
	const limit = 100_000
	b := newBook(t, Limits{History: limit, Rounds: 1 << 30})
	most := 0
	for round := range 300 {
		id := fmt.Sprintf("c%d", round)
		calls := &Reply{Calls: []Call{{ID: id, Name: "a"}, {ID: id + "b", Name: "b"}}}
		if round%40 == 0 {
			b.tell(input{Kind: said, Text: fmt.Sprint("go on, ", round)}, calls)
		}
		b.resolve(id+"b", round%7*300)
		if next := (&Reply{Calls: []Call{{ID: fmt.Sprintf("c%d", round+1), Name: "a"}, {ID: fmt.Sprintf("c%db", round+1), Name: "b"}}}); round%40 < 39 {
			b.resolve(id, 2000, next)
		} else {
			b.resolve(id, 2000)
		}
		most = max(most, b.s.Bytes)
	}
	if most <= limit*3/4 || most > limit+10_000 || b.s.Kept.First < 500 {
		t.Errorf("at most %d bytes, and %d messages are gone", most, b.s.Kept.First)
	}
	if m := b.s.Kept.missing(); m == nil || !strings.Contains(m.Text, fmt.Sprint(b.s.Messages-len(b.kept))) {
		t.Errorf("of %d messages %d are kept; a model is told %+v", b.s.Messages, len(b.kept), m)
	}
}

// TestIdentifiersBound checks that identifiers stay unique after some of them are forgotten.
func TestIdentifiersBound(t *testing.T) {
	b := newBook(t, Limits{History: 1 << 16, Rounds: 1 << 30})
	var do doing
	turn := turn{machine: b.m, s: &b.s, do: &do}
	seen := map[string]bool{}
	for n := range 5 * manyIDs {
		turn.s.Round++
		id := turn.name([]Call{{ID: fmt.Sprint("call-", n%100)}})[0].ID
		if seen[id] {
			t.Fatalf("call %d has the identifier %q of another one", n, id)
		}
		seen[id] = true
		turn.s.Messages += 2
	}
	if n := len(b.s.Used) + len(b.s.UsedBefore); n > 2*manyIDs {
		t.Errorf("%d identifiers are remembered", n)
	}
}

// TestChildrenBound checks the limit on the children of a thread: further subscriptions get none.
func TestChildrenBound(t *testing.T) {
	b := newBook(t, Limits{Children: 2})
	for _, id := range []string{"a", "b", "c", "b"} {
		b.tell(input{Kind: openChild, Thread: id, Token: id})
	}
	b.s.Subscriptions = []Subscription{{Call: Call{ID: "s"}}}
	b.tell(input{Kind: said, Text: "go"})
	b.tell(input{Kind: happened, Event: &Event{Call: Call{ID: "s"}, Text: "news"}})
	last := b.kept[b.s.Messages-2]
	if len(b.s.Children) != 2 || last.Kind != Result || last.Result.Text() != "news" {
		t.Errorf("children %q; the event came as %+v", b.s.Children, last)
	}
}

// TestRetention checks that a closed thread is forgotten after its time, with all of its messages.
func TestRetention(t *testing.T) {
	b := newBook(t, Limits{History: 1000, Retain: time.Hour})
	for range 20 {
		b.tell(input{Kind: said, Text: "words of a user who talks a lot"})
	}
	b.tell(input{Kind: closed})
	if len(b.kept) > 0 || b.over != time.Hour {
		t.Errorf("%d messages stay when the thread goes after %v", len(b.kept), b.over)
	}
}

// TestUnknownThread checks that an input to a thread that does not exist leaves no state.
func TestUnknownThread(t *testing.T) {
	for kind := asked; kind <= done; kind++ {
		if kind == opened {
			continue
		}
		s := newState()
		var do doing
		machine{Limits{}.withDefaults()}.step(&s, input{Kind: kind, Token: "t", From: "u", Number: 1, Event: &Event{}, Outcome: &Outcome{}}, &do)
		if !do.Forgets() || len(do.Calls()) > 0 || s.Session != nil {
			t.Errorf("input %d leaves something: %+v", kind, s)
		}
		if answered := len(do.Emitted()); kind != done && answered != 1 {
			t.Errorf("input %d has %d answers", kind, answered)
		}
	}
}

// TestForwardedOnce checks that a thread takes an input forwarded by another thread once.
func TestForwardedOnce(t *testing.T) {
	b := newBook(t, Limits{})
	for range 2 {
		b.tell(input{Kind: said, Text: "one", From: "p", Number: 7})
	}
	b.tell(input{Kind: said, Text: "two", From: "p", Number: 8})
	b.tell(input{Kind: said, Text: "three", From: "q", Number: 1})
	var said []string
	for n := range b.s.Messages {
		if m := b.kept[n]; m.Kind == User {
			said = append(said, m.Text)
		}
	}
	if got := strings.Join(said, " "); got != "one two three" {
		t.Errorf("said %q", got)
	}
}

// TestIdle checks that an idle thread is closed, unless a call is pending.
func TestIdle(t *testing.T) {
	b := newBook(t, Limits{Idle: time.Hour})
	b.tell(input{Kind: said, Text: "go"}, &Reply{Calls: []Call{{ID: "a", Name: "x"}}})
	var do doing
	b.m.fire(&b.s, idle, &do)
	if d, set := do.Set(idle); b.s.Closed || !set || d != time.Hour {
		t.Errorf("closed: %v while a call is pending; rings again after %v", b.s.Closed, d)
	}
	b.resolve("a", 10)
	do = doing{}
	if b.m.fire(&b.s, idle, &do); !b.s.Closed || !do.Stops(idle) {
		t.Error("a thread without anything to come stays open")
	}
}

func resolution(text string) *agentproto.Resolution {
	return &agentproto.Resolution{Cause: agentproto.ByResult, Result: &agentproto.ToolResult{Text: &text}}
}
