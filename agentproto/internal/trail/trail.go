// Package trail remembers what happened to calls lately, for people who look at a runtime.
//
// It is what one process has seen since it started. A flow keeps where a call stands and not how it came there, which
// its history has if it keeps one.
package trail

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// How much is remembered.
const (
	MaxCalls  = 5_000 // those of which something happened last
	MaxEvents = 32    // of a call: the first one, and the last ones
)

// An Event is something that happened to a call.
type Event struct {
	At   time.Time
	What string // in few words, such as "resolved"
	Why  string // what more there is to say; may be empty
}

// A Trail is what happened to calls. Its methods may be used by any number of goroutines, and take O(1).
type Trail struct {
	now func() time.Time

	mu    sync.Mutex
	calls map[agentproto.CallKey]*list.Element
	order list.List // of *call: the one of which something happened last in front
}

type call struct {
	key      agentproto.CallKey
	events   []noted
	lost     int // behind the first one
	progress *Progress
}

// A Progress is what a tool has said last of how far a call is.
type Progress struct {
	agentproto.Progress
	// Number is another one for each that was said. It grows, and across restarts it does as the clock does.
	Number uint64
	At     time.Time
}

// A noted is an [Event] in fewer bytes.
type noted struct {
	at   int64 // nanoseconds of Unix time
	what string
	why  string
}

// New returns a trail without calls.
func New() *Trail { return &Trail{now: time.Now, calls: make(map[agentproto.CallKey]*list.Element)} }

// Note remembers that something has happened to a call.
func (t *Trail) Note(key agentproto.CallKey, what, why string) { t.NoteAt(key, t.now(), what, why) }

// NoteAt is Note for what happened at a time: others may have noted since what came of it.
func (t *Trail) NoteAt(key agentproto.CallKey, at time.Time, what, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.call(key)
	if len(c.events) == MaxEvents {
		copy(c.events[1:], c.events[2:])
		c.events = c.events[:MaxEvents-1]
		c.lost++
	}
	n := noted{at.UnixNano(), what, why}
	i := len(c.events)
	for i > 0 && c.events[i-1].at > n.at {
		i--
	}
	c.events = slices.Insert(c.events, i, n)
}

// call returns a call, to which something happens now. It is called with mu held.
func (t *Trail) call(key agentproto.CallKey) *call {
	e := t.calls[key]
	if e == nil {
		if t.order.Len() >= MaxCalls {
			oldest := t.order.Remove(t.order.Back()).(*call)
			delete(t.calls, oldest.key)
		}
		e = t.order.PushFront(&call{key: key})
		t.calls[key] = e
	} else {
		t.order.MoveToFront(e)
	}
	return e.Value.(*call)
}

// Report remembers what a tool says of how far a call is, in place of what it has said before.
func (t *Trail) Report(key agentproto.CallKey, p agentproto.Progress) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, at := t.call(key), t.now()
	n := uint64(at.UnixMilli())
	if c.progress != nil {
		n = max(n, c.progress.Number+1)
	}
	c.progress = &Progress{p, n, at}
}

// Progress returns what a tool has said last of how far a call is, which is not to be changed, or nil.
func (t *Trail) Progress(key agentproto.CallKey) *Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.calls[key]; e != nil {
		return e.Value.(*call).progress
	}
	return nil
}

// Of returns what happened to a call, in order, and how much is missing behind the first event. It is empty if nothing
// is remembered of the call.
func (t *Trail) Of(key agentproto.CallKey) (events []Event, lost int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.calls[key]
	if e == nil {
		return nil, 0
	}
	c := e.Value.(*call)
	for _, e := range c.events {
		events = append(events, Event{time.Unix(0, e.at), e.what, e.why})
	}
	return events, c.lost
}
