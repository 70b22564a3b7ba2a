// Package trail remembers the recent events of calls, for people who look at a runtime.
//
// It contains what one process has seen since it started. A flow stores the state of a call but not how the call came
// to it; its history, if it keeps one, contains that.
package trail

import (
	"container/list"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// Limits of a trail.
const (
	MaxCalls  = 5_000 // the calls with the latest events
	MaxEvents = 32    // per call: the first one, and the last ones
)

// An Event is an event of a call.
type Event struct {
	At   time.Time
	What string // a few words, such as "resolved"
	Why  string // details; may be empty
}

// A Trail contains the recent events of calls. Its methods are safe for concurrent use. They take O(1).
type Trail struct {
	now func() time.Time

	mu    sync.Mutex
	calls map[agentproto.CallKey]*list.Element
	order list.List // of *call: the one with the latest event first
}

type call struct {
	key      agentproto.CallKey
	events   []noted
	lost     int // events that are missing after the first one
	progress *Progress
}

// A Progress is a tool's latest report on the progress of a call.
type Progress struct {
	agentproto.Progress
	// Number increases with each report. Across restarts it increases with the clock.
	Number uint64
	At     time.Time
}

// A noted is an [Event] in less memory.
type noted struct {
	at   int64 // nanoseconds of Unix time
	what string
	why  string
}

// New returns a trail without calls.
func New() *Trail { return &Trail{now: time.Now, calls: make(map[agentproto.CallKey]*list.Element)} }

// Note records an event of a call.
func (t *Trail) Note(key agentproto.CallKey, what, why string) { t.NoteAt(key, t.now(), what, why) }

// NoteAt is Note for an event at an earlier time: later events may have been recorded already.
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

// call returns a call, and marks it as the one with the latest event. It is called with mu held.
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

// Report records a tool's report on the progress of a call, and replaces the one before.
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

// Progress returns a tool's latest report on the progress of a call, which must not be changed, or nil.
func (t *Trail) Progress(key agentproto.CallKey) *Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.calls[key]; e != nil {
		return e.Value.(*call).progress
	}
	return nil
}

// Of returns the events of a call in order, and how many are missing after the first one. It returns none if the call
// is not remembered.
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
