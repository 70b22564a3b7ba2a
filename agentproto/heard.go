package agentproto

import (
	"context"
	"slices"

	"github.com/millrace/millrace/dataflow"
)

// The events of a subscription are messages of the conversation whose call opened it. A call that no
// conversation is told of (see [Call].Told) keeps the last ones itself, for whoever asks for them.

const (
	// HeardEvents is how many events of a subscription a call keeps, and HeardBytes how many bytes they have at
	// most, but for a last one that is longer.
	HeardEvents = 100
	HeardBytes  = 64 << 10
)

// A heard is what a call keeps of its subscription.
type heard struct {
	Operation string
	Last      int      // the number of the last event
	Texts     []string // the last ones
	Ended     bool
}

// keep keeps the text of one more event, in place of the oldest ones if there is no room.
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

// heardAll is the end of a subscription whose call keeps events. They are kept as a result of their size is that nobody reads.
func (t turn) heardAll() {
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

// Events are what a call keeps of the subscription that it opened.
type Events struct {
	Key       CallKey
	Operation string // the tool
	// Last is the number of the last event. Events are numbered from 1 on.
	Last int
	// Texts are those of the last events, the oldest first: at most [HeardEvents] and [HeardBytes]. All are the tool
	// server's words.
	Texts []string
	// Ended says that no event comes any more.
	Ended bool
}

func (h *heard) events(k CallKey) Events {
	return Events{Key: k, Operation: h.Operation, Last: h.Last, Ended: h.Ended}
}

// EventsOf returns the events that a call keeps, and reports false if it keeps none: it has opened no subscription, it is
// forgotten, or its conversation was told of them. What is kept of a subscription that has ended goes as a large result goes that
// nobody reads, see [ProgramOptions].Results: then Texts is empty and Last is not.
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
// made, without Texts. It looks at each call of the thread that the app remembers.
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
