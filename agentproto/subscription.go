package agentproto

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
)

// A call whose accepted result opened a subscription goes on: its events are delivered in
// the order in which they arrived, until one is final, the subscription is cancelled, its
// thread is closed or the tool server has lost it. See doc/protocol.md §7.

// rememberedEvents is how many message ids of one subscription are remembered. A server that
// posts an event again does so soon after: what comes again behind so many others is taken
// for a new one.
const rememberedEvents = 1024

// A subscription is what is remembered of one that is open.
type subscription struct {
	Key    CallKey
	Server string // that of the call
	// Seen are the digests of the last message ids, in no order: a digest is eight bytes
	// however long the id is. When it is full, the oldest is at Next.
	Seen []uint64
	Next int
	// Left is how many events were left out and not told of yet, and Gap says that there are
	// some of which the number may be lost.
	Left int
	Gap  bool
}

// repeated reports whether an event with this message id was seen, and remembers it. An
// event without an id is never a repetition, for two equal events are two.
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

// subscribed says whether the call has an open subscription.
func (s *callState) subscribed() bool { return s.More != nil && s.More.Sub != nil }

// afterwards handles an input of a call that is resolved or was never put.
func afterwards(s *callState, in input, emit emitter) {
	if !s.subscribed() {
		drop(s, in.kind(), emit)
		return
	}
	switch kind := in.kind(); kind {
	case SubscriptionEventArrived:
		receive(s, in.Event, emit)
	case EventsLeftOut:
		s.More.Sub.Gap = true
	case SubscriptionCancelled:
		unsubscribe(s, kind, emit)
		ask(emit, Effect{Kind: CancelCall, State: s.State})
	case CallLost:
		ask(emit, Effect{Kind: DeliverEvent, State: s.State, Subscription: s.More.Sub.telling(s.More.Sub.lost(in.Event.Reason))})
		unsubscribe(s, kind, emit)
	case threadClosed:
		unsubscribe(s, kind, emit)
	default:
		drop(s, kind, emit)
	}
}

// receive delivers an event once.
func receive(s *callState, e *event, emit emitter) {
	sub := s.More.Sub
	sub.Left += e.LeftOut
	if sub.repeated(e.MessageID) {
		ask(emit, Effect{Kind: Drop, State: s.State, Dropped: Duplicate, Event: e.Kind})
		return
	}
	ask(emit, Effect{Kind: DeliverEvent, State: s.State, Subscription: sub.telling(e.Subscription)})
	if e.Subscription.Final {
		unsubscribe(s, e.Kind, emit)
	}
}

// telling returns an event whose text begins with a line that tells of the events left out
// before it, if there are any.
func (s *subscription) telling(e *SubscriptionEvent) *SubscriptionEvent {
	if s.Left == 0 && !s.Gap {
		return e
	}
	told := *e
	told.Text = LeftOutText(s.Left) + "\n" + e.Text
	s.Left, s.Gap = 0, false
	return &told
}

// LeftOutText is the line that tells a model that n events of a subscription are missing in
// front of what follows. Zero stands for a number that nobody knows.
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

// lost is the final event that the program makes for a server that has none any more.
func (s *subscription) lost(reason string) *SubscriptionEvent {
	text := ErrorResult(s.Key, nil, "the tool server lost the subscription: %s", reason)
	return &SubscriptionEvent{GroupID: s.Key.GroupID, ToolCallID: s.Key.ID, Text: *text.Text, Associative: true, Final: true}
}

// unsubscribe ends the subscription: nothing is delivered any more.
func unsubscribe(s *callState, why EventKind, emit emitter) {
	s.More = nil
	ask(emit, Effect{Kind: SubscriptionEnded, State: s.State, Event: why})
}
