package agentproto

import (
	"context"
	"slices"

	"github.com/millrace/millrace/dataflow"
)

// The events of a subscription are messages of the conversation whose call opened it. A call whose events go to no conversation
// (see [Call].Told) keeps the last ones itself, to be read on request.

const (
	// HeardEvents is how many events of a subscription a call keeps.
	HeardEvents = 100
	// HeardBytes is how many bytes of text these events have at most. The last event is kept even if it alone is larger.
	HeardBytes = 64 << 10
)

// A heard holds the events that a call keeps of its subscription.
type heard struct {
	Operation string
	Last      int      // the number of the last event
	Texts     []string // of the last events
	Ended     bool
}

// keep adds the text of one more event. It drops the oldest ones that exceed the limits.
func (h *heard) keep(text string) {
	h.Last++
	h.Texts = append(h.Texts, text)
	first, size := len(h.Texts)-1, len(text)
	for first > 0 && len(h.Texts)-first < HeardEvents && size+len(h.Texts[first-1]) <= HeardBytes {
		first--
		size += len(h.Texts[first])
	}
	h.Texts = slices.Delete(h.Texts, 0, first)
}

func (h *heard) size() (n int) {
	for _, text := range h.Texts {
		n += len(text)
	}
	return n
}

// endHeard marks the end of a subscription whose call keeps events. They are then kept as long as an unread result of the same
// size.
func (t turn) endHeard() {
	h := t.s.Heard
	if h == nil || h.Ended {
		return
	}
	h.Ended = true
	if n := h.size(); n >= countedResult && t.retain > 0 {
		t.do.After(whole, unreadResult)
		t.do.Call(request{Notice: &Notice{Key: t.do.Key(), Kept: n}})
	}
}

// Events are the subscription events that a call keeps.
type Events struct {
	Key       CallKey
	Operation string // the tool
	// Last is the number of the last event. Events are numbered from 1.
	Last int
	// Texts are the texts of the last events, oldest first: at most [HeardEvents] and [HeardBytes]. They are the tool server's
	// own words.
	Texts []string
	// Ended says that no more events arrive.
	Ended bool
}

func (h *heard) events(k CallKey) Events {
	return Events{Key: k, Operation: h.Operation, Last: h.Last, Ended: h.Ended}
}

// EventsOf returns the events that a call keeps. It reports false if the call keeps none: it has opened no subscription, it is
// forgotten, or its events went to its conversation. After a subscription has ended, its texts are removed like a large result
// that nobody reads, see [ProgramOptions].Results: Texts is then empty and Last is not zero.
func EventsOf(ctx context.Context, app dataflow.Remembering, key CallKey) (e Events, found bool, err error) {
	has, err := dataflow.StateOf(ctx, app, key, func(s *callState) {
		if found = s.Heard != nil; found {
			e = s.Heard.events(key)
			e.Texts = slices.Clone(s.Heard.Texts)
		}
	})
	return e, has && found && err == nil, err
}

// SubscriptionsOf returns the open subscriptions of a thread whose calls keep their events, in the order in which the calls were
// made, without Texts. It reads the state of every remembered call of the thread.
func SubscriptionsOf(ctx context.Context, app dataflow.Remembering, groupID string) ([]Events, error) {
	var ids []string
	if _, err := dataflow.StateOf(ctx, app, ThreadID(groupID), func(t *thread) { ids = t.all() }); err != nil {
		return nil, err
	}
	keys := make([]CallKey, len(ids))
	for i, id := range ids {
		keys[i] = CallKey{GroupID: groupID, ID: id}
	}
	var open []Events
	err := dataflow.StatesOf(ctx, app, keys, func(i int, s *callState) {
		if s.Heard != nil && s.subscribed() {
			open = append(open, s.Heard.events(keys[i]))
		}
	})
	if err != nil {
		return nil, err
	}
	return open, nil
}
