package agentproto

import (
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

// The calls of a thread are closed together, and moved to another host together. So a thread knows its calls, and its inputs
// (calls, closure, the steps of a move) have one order.

type (
	orderedAt = dataflow.OrderedKeyedStream[moveKey, *move, Host]
	toldAt    = dataflow.OrderedKeyedStream[ThreadID, told, Host]
)

// A word is an input of a thread. If no field is set, it closes the thread.
type word struct {
	Call    *Call
	Order   *order
	Renewed string // a call that goes on
	Kept    *kept  // a result that is kept
}

// An order is one step of a move, for a thread or one of its calls.
type order struct {
	Key   moveKey
	Move  *move
	Place handover.Place // of an order for a call: the new place of its thread
}

// A told is an output of a thread: an input for one of its calls, or the reply to an order.
type told struct {
	ID    string
	Call  *Call
	Event *event
	Reply *reply
}

// A reply is the outcome of an order.
type reply struct {
	Key     moveKey
	Refused string   // the reason, or ""
	Calls   []string // of export
	Closed  bool     // of export
}

// threads passes each call on to its key, and informs the calls of a thread that is closed or moves.
func threads(calls callsAt, words wordsAt, moves orderedAt, m machine) toldAt {
	put := keyedstream.Map(keyedstream.Rekey(calls, func(k CallKey, _ *Call) ThreadID { return ThreadID(k.GroupID) }), func(c *Call) word { return word{Call: c} })
	orders := keyedstream.FilterMapWithKey(moves, orderOf)
	moved := keyedstream.Rekey(orders, func(k moveKey, _ word) ThreadID { return ThreadID(k.GroupID) })
	outputs, _ := keyedstream.TimedMachine(keyedstream.Merge(keyedstream.Merge(moved, words), put), newThread, m.handleInput, m.sweep,
		"a call and the closure of its thread find each other whichever comes first")
	return outputs
}

func orderOf(k moveKey, m *move) (word, bool) {
	return word{Order: &order{Key: k, Move: m}}, k.Step != 0
}

// toCalls returns the outputs of threads that are inputs of calls.
func toCalls(outputs toldAt) mergedAt {
	inputs := keyedstream.Filter(outputs, func(t told) bool { return t.Reply == nil })
	byCall := keyedstream.Rekey(inputs, func(thread ThreadID, t told) CallKey { return CallKey{GroupID: string(thread), ID: t.ID} })
	return keyedstream.Map(byCall, func(t told) input { return input{Call: t.Call, Event: t.Event} })
}

// A thread is the state of one thread: which calls it has.
//
// A call does not report its end, which would cost a record for each call; it reports from time to time that it goes on. So Calls
// holds those heard of since the last sweep, and Earlier those heard of only in the period before.
type thread struct {
	Calls   []string // the ids, in the order in which they were heard of
	Earlier []string
	Closed  bool
	Move    handover.State
	Closing bool   // it was closed during a move, and the closure has to wait
	Told    bool   // Closing is in the snapshot
	Sweeps  bool   // a sweep is scheduled
	Kept    []kept // results, oldest first
}

func newThread() thread { return thread{} }

// A threadTurn is what one step of a thread uses to emit and to set timers.
type threadTurn = keyedstream.TimedTurn[ThreadID, told, struct{}]

// handleInput handles an input of a thread, and schedules when the thread is swept and forgotten.
func (m machine) handleInput(t *thread, w word, do *threadTurn) {
	was := t.over()
	if w.Kept != nil {
		t.count(w.Kept, m.results, do.Emit)
	} else {
		handle(t, w, do.Emit)
	}
	if m.retain == 0 {
		return
	}
	is := t.over()
	switch {
	case t.empty():
		do.Forget()
	case is && !was:
		do.ForgetAfter(m.retention(t))
	case !is && was:
		do.ForgetAfter(never)
		fallthrough
	case !is && !t.Sweeps:
		t.Sweeps = true
		do.After(0, m.retain)
	}
}

// retention is how long a thread that is over is remembered.
func (m machine) retention(t *thread) time.Duration {
	if t.Move.Place != handover.Here {
		return max(m.retain, movedRetention)
	}
	return m.retain
}

// sweep forgets the calls that have not reported for a while.
func (m machine) sweep(t *thread, _ keyedstream.Timer, do *threadTurn) {
	t.Earlier, t.Calls = t.Calls, nil
	t.age()
	if t.empty() {
		do.Forget()
		return
	}
	do.After(0, m.retain)
}

// over reports whether the thread is closed or not here: nothing more happens in it.
func (t *thread) over() bool {
	return t.Closed || t.Move.Place == handover.Gone || t.Move.Place == handover.None
}

// empty reports whether a thread is in the initial state.
func (t *thread) empty() bool {
	return len(t.Calls)+len(t.Earlier)+len(t.Kept) == 0 && !t.Closed && !t.Closing && t.Move.Place == handover.Here
}

// renew records that a call goes on.
func (t *thread) renew(id string) {
	if t.over() || slices.Contains(t.Calls, id) {
		return
	}
	t.Calls = append(t.Calls, id)
	t.Earlier = slices.DeleteFunc(t.Earlier, func(other string) bool { return other == id })
}

// all returns the calls of the thread that may not be over.
func (t *thread) all() []string { return slices.Concat(t.Earlier, t.Calls) }

// handle handles an input of a thread other than a kept result.
func handle(t *thread, w word, emit func(told)) {
	switch {
	case w.Order != nil:
		why := apply(t, w.Order, emit)
		r := &reply{Key: w.Order.Key, Refused: why}
		if why == "" && w.Order.Key.Step == handover.Send {
			r.Calls, r.Closed, t.Told = t.all(), t.Closed || t.Closing, t.Closing
		}
		emit(told{Reply: r})
	case w.Call != nil && (t.Closed || t.Move.Place != handover.Here && t.Move.Place != handover.None):
		emit(told{ID: w.Call.Key.ID, Call: w.Call, Event: closedEvent})
	case w.Call != nil:
		t.Move.Place = handover.Here // also if it was expected here and did not come
		t.Calls = append(t.Calls, w.Call.Key.ID)
		emit(told{ID: w.Call.Key.ID, Call: w.Call})
	case w.Renewed != "":
		t.renew(w.Renewed)
	case t.Move.Place.Still():
		t.Closing = true
	case t.Move.Place == handover.Gone:
		emit(told{Event: t.closure()})
	default:
		t.close(emit)
	}
}

var closedEvent = &event{Event: Event{Kind: threadClosed}}

func (t *thread) close(emit func(told)) {
	t.emitAll(closedEvent, emit)
	t.Calls, t.Earlier, t.Closed, t.Closing, t.Move.Place = nil, nil, true, false, handover.Here
}

// emitAll emits an event to every call of the thread.
func (t *thread) emitAll(e *event, emit func(told)) {
	for _, id := range t.all() {
		emit(told{ID: id, Event: e})
	}
}

// apply applies an order, or returns why not.
func apply(t *thread, o *order, emit func(told)) (refused string) {
	m, step := t.Move, o.Key.Step
	if step == handover.Stage {
		switch {
		case t.Closed:
			return "it is closed"
		case m.Place == handover.Here && len(t.Calls)+len(t.Earlier) == 0: // nothing is known of it
			m.Place = handover.None
		}
	}
	changed, why := m.Take(step, o.Key.Migration)
	if why != "" {
		return why
	}
	if step == handover.Stage && changed && t.Move.Place == handover.Staged { // it replaces what was staged before
		t.emitAll(t.move(o, handover.None), emit)
		t.Calls, t.Earlier, t.Closing = nil, nil, false
	}
	t.Move = m
	e := t.move(o, m.Place)
	switch {
	case step == handover.Stage && m.Place == handover.Staged: // each call comes with a step of its own
		t.Closing = t.Closing || o.Move.Closed
		if id := o.Key.ID; id != "" {
			t.Calls = append(t.Calls, id)
			emit(told{ID: id, Event: e})
		}
		return ""
	case !changed:
		return ""
	}
	t.emitAll(e, emit)
	switch {
	case m.Place == handover.Here && t.Closing:
		t.close(emit)
	case t.over():
		if t.Closing && !t.Told && step == handover.Commit {
			emit(told{Event: t.closure()})
		}
		t.Calls, t.Earlier, t.Closing, t.Told = nil, nil, false, false
	}
	return ""
}

// closure returns the event that forwards the closure of a thread that has left. It belongs to no call.
func (t *thread) closure() *event {
	return &event{Event: Event{Kind: threadClosed}, Order: &order{Key: moveKey{Migration: t.Move.Transfer}, Place: handover.Gone}}
}

// move returns the event that tells a call of an order.
func (t *thread) move(o *order, to handover.Place) *event {
	return &event{Event: Event{Kind: ordered, At: o.Move.Now}, Order: &order{o.Key, o.Move, to}}
}
