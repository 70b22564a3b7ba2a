package agentproto

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// A call whose accepted result opened a subscription continues: it delivers events in the order in which they arrived, until one
// is final, the subscription is cancelled, its thread is closed or the tool server has lost it. See doc/protocol.md §7.

// rememberedEvents is how many message ids of one subscription are remembered. A server that posts an event again does so soon
// after: a repetition after this many other events counts as a new event.
const rememberedEvents = 1024

// A subscription is the state of an open subscription.
type subscription struct {
	Key         CallKey
	Server      string // that of the call
	Incarnation uint64 // that of the call
	// Seen are the digests of the last message ids, eight bytes each. When it is full, it is a ring buffer whose oldest entry is
	// at Next.
	Seen []uint64
	Next int
	// Left is how many events were dropped and not yet reported. Gap says that events were dropped whose number may be lost.
	Left int
	Gap  bool
}

// repeated reports whether an event with this message id was seen, and remembers the id. An event without an id is never a
// repetition: two equal events are two events.
func (s *subscription) repeated(messageID string) bool {
	if messageID == "" {
		return false
	}
	sum := sha256.Sum256([]byte(messageID))
	digest := binary.BigEndian.Uint64(sum[:])
	switch {
	case slices.Contains(s.Seen, digest):
		return true
	case len(s.Seen) < rememberedEvents:
		s.Seen = append(s.Seen, digest)
	default:
		s.Seen[s.Next] = digest
		s.Next = (s.Next + 1) % rememberedEvents
	}
	return false
}

// subscribed reports whether the call has an open subscription.
func (s *callState) subscribed() bool { return s.More != nil && s.More.Sub != nil }

// afterwards handles an input of a call that is resolved or was never put.
func (t turn) afterwards(in input) {
	s := t.s
	if !s.subscribed() {
		t.drop(in.kind())
		return
	}
	switch kind := in.kind(); kind {
	case SubscriptionEventArrived:
		t.receive(in.Event)
	case EventsLeftOut:
		s.More.Sub.Gap = true
	case SubscriptionCancelled:
		t.unsubscribe(kind)
		t.ask(Effect{Kind: CancelCall, State: s.State})
	case CallLost:
		t.lose(kind, in.Event.Reason)
	case threadClosed:
		t.unsubscribe(kind)
	case deadlineOver:
		if in.Event.Armed == s.Armed {
			t.silent()
		}
	default:
		t.drop(kind)
	}
}

// receive delivers an event once.
func (t turn) receive(e *event) {
	s := t.s
	sub := s.More.Sub
	sub.Left += e.LeftOut
	if sub.repeated(e.MessageID) {
		t.ask(Effect{Kind: Drop, State: s.State, Dropped: Duplicate, Event: e.Kind})
		return
	}
	t.deliver(e.Subscription)
	if e.Subscription.Final {
		t.unsubscribe(e.Kind)
	} else {
		t.listen()
	}
}

// deliver emits an event, and keeps it if the call keeps its events.
func (t turn) deliver(e *SubscriptionEvent) {
	e = t.s.More.Sub.telling(e)
	if h := t.s.Heard; h != nil {
		h.keep(e.Text)
	}
	t.ask(Effect{Kind: DeliverEvent, State: t.s.State, Subscription: e})
}

// listen restarts the time after which a silent subscription ends.
func (t turn) listen() {
	if t.idle > 0 {
		t.arm(t.idle)
	}
}

// silent ends a subscription that is silent for too long.
func (t turn) silent() {
	if t.idle == 0 {
		return
	}
	t.lose(deadlineOver, "it was silent for "+t.idle.String())
	t.ask(Effect{Kind: CancelCall, State: t.s.State})
}

// lose ends a subscription with a final event that the program makes.
func (t turn) lose(why EventKind, reason string) {
	t.deliver(t.s.More.Sub.lost(reason))
	t.unsubscribe(why)
}

// telling returns the event with a first line that reports the events dropped before it, if any.
func (s *subscription) telling(e *SubscriptionEvent) *SubscriptionEvent {
	if s.Left == 0 && !s.Gap {
		return e
	}
	told := *e
	told.Text = LeftOutText(s.Left) + "\n" + e.Text
	s.Left, s.Gap = 0, false
	return &told
}

// LeftOutText returns the line that tells a model that n events of a subscription are missing at this point. Zero means an
// unknown number.
func LeftOutText(n int) string {
	const why = "left out: the tool sent more than the runtime takes]"
	switch n {
	case 0:
		return "[events were " + why
	case 1:
		return "[1 event was " + why
	}
	return fmt.Sprintf("[%d events were %s", n, why)
}

// lost returns the final event that the program makes when the tool server sends none.
func (s *subscription) lost(reason string) *SubscriptionEvent {
	text := ErrorResult(s.Key, nil, "the tool server lost the subscription: %s", reason)
	return &SubscriptionEvent{GroupID: s.Key.GroupID, ToolCallID: s.Key.ID, Text: *text.Text, Associative: true, Final: true}
}

// unsubscribe ends the subscription: nothing is delivered after it.
func (t turn) unsubscribe(why EventKind) {
	t.s.More = nil
	t.ask(Effect{Kind: SubscriptionEnded, State: t.s.State, Event: why})
	t.s.Armed++
	t.endHeard()
	t.over()
}
