package agentproto

import (
	"crypto/sha256"
	"encoding/binary"
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
	Key CallKey
	// Seen are the digests of the last message ids, in no order: a digest is eight bytes
	// however long the id is. When it is full, the oldest is at Next.
	Seen []uint64
	Next int
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
	case SubscriptionCancelled:
		unsubscribe(s, kind, emit)
		ask(emit, Effect{Kind: CancelCall, State: s.State})
	case CallLost:
		ask(emit, Effect{Kind: DeliverEvent, State: s.State, Subscription: s.More.Sub.lost(in.Event.Reason)})
		unsubscribe(s, kind, emit)
	case threadClosed:
		unsubscribe(s, kind, emit)
	default:
		drop(s, kind, emit)
	}
}

// receive delivers an event once.
func receive(s *callState, e *event, emit emitter) {
	if s.More.Sub.repeated(e.MessageID) {
		ask(emit, Effect{Kind: Drop, State: s.State, Dropped: Duplicate, Event: e.Kind})
		return
	}
	ask(emit, Effect{Kind: DeliverEvent, State: s.State, Subscription: e.Subscription})
	if e.Subscription.Final {
		unsubscribe(s, e.Kind, emit)
	}
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
