package agentproto

import (
	"slices"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// The calls of a thread are closed together, and moved to another host together. So a thread
// knows its calls, and its inputs (calls, closure, the steps of a move) are in one order.

type (
	threadsAt = dataflow.KeyedSingleton[ThreadID, struct{}, Host, bounds.BoundedValue]
	movesAt   = dataflow.KeyedSingleton[moveKey, *move, Host, bounds.BoundedValue]
	toldAt    = dataflow.KeyedStream[ThreadID, told, Host, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
)

// A word is said to a thread. If no field is set, it is closed.
type word struct {
	Call  *Call
	Order *order
}

// An order is one step of a move, for a thread or one of its calls.
type order struct {
	Key  moveKey
	Move *move
}

// A told is what a thread says: an event to a call of it, or the reply to an order.
type told struct {
	ID    string
	Event *event
	Reply *reply
}

// A reply says what came of an order.
type reply struct {
	Key     moveKey
	Refused string   // why, or ""
	Calls   []string // of export
	Closed  bool     // of export
}

// threads tells each call of a closed thread, whether it came before the closure or comes
// after, and each call of a thread that moves.
func threads(calls callsAt, closures threadsAt, moves movesAt) toldAt {
	put := keyedstream.Rekey(keyedsingleton.IntoKeyedStream(calls), func(k CallKey, _ *Call) ThreadID { return ThreadID(k.GroupID) })
	closed := keyedstream.Map(keyedsingleton.IntoKeyedStream(closures), func(struct{}) word { return word{} })
	orders := keyedsingleton.FilterMapWithKey(moves, orderOf)
	moved := keyedstream.Rekey(keyedsingleton.IntoKeyedStream(orders), func(k moveKey, _ word) ThreadID { return ThreadID(k.GroupID) })
	said := keyedstream.Merge(keyedstream.Merge(closed, moved), keyedstream.Map(put, func(c *Call) word { return word{Call: c} }))
	inOrder := keyedstream.AssumeOrder(said, "a call and the closure of its thread find each other whichever comes first")
	return keyedstream.Scan(inOrder, newThread, tell)
}

func orderOf(k moveKey, m *move) (word, bool) { return word{Order: &order{k, m}}, k.Step != stepRelay }

// toCalls are what threads tell their calls.
func toCalls(said toldAt) mergedAt {
	events := keyedstream.Filter(said, func(t told) bool { return t.Event != nil })
	byCall := keyedstream.Rekey(events, func(thread ThreadID, t told) CallKey { return CallKey{GroupID: string(thread), ID: t.ID} })
	return keyedstream.Map(byCall, func(t told) input { return input{Event: t.Event} })
}

// A thread is what is remembered of the calls of one thread.
type thread struct {
	Calls     []string // the ids of those that came before
	Closed    bool
	Phase     phase
	Migration string // the last one
	Closing   bool   // it was closed in a phase in which that has to wait
}

func newThread() thread { return thread{} }

// tell handles what is said to a thread.
func tell(t *thread, w word, emit func(told)) {
	switch {
	case w.Order != nil:
		why := obey(t, w.Order, emit)
		r := &reply{Key: w.Order.Key, Refused: why}
		if why == "" && w.Order.Key.Step == stepExport {
			r.Calls, r.Closed = slices.Clone(t.Calls), t.Closed || t.Closing
		}
		emit(told{Reply: r})
	case w.Call != nil && (t.Closed || t.Phase != phaseHere):
		emit(told{ID: w.Call.Key.ID, Event: closedEvent})
	case w.Call != nil:
		t.Calls = append(t.Calls, w.Call.Key.ID)
	case t.Phase != phaseHere:
		t.Closing = true
	default:
		t.close(emit)
	}
}

var closedEvent = &event{Event: Event{Kind: threadClosed}}

func (t *thread) close(emit func(told)) {
	t.all(closedEvent, emit)
	t.Calls, t.Closed, t.Closing = nil, true, false
}

// all tells every call of the thread.
func (t *thread) all(e *event, emit func(told)) {
	for _, id := range t.Calls {
		emit(told{ID: id, Event: e})
	}
}

// obey follows an order, or says why not.
func obey(t *thread, o *order, emit func(told)) (refused string) {
	same := t.Migration == o.Key.Migration
	e := &event{Event: Event{Kind: ordered, At: o.Move.Now}, Order: o}
	switch o.Key.Step {
	case stepFreeze:
		if t.Phase != phaseHere {
			return "it is " + t.Phase.String() + " already"
		}
		t.Phase, t.Migration = phaseFrozen, o.Key.Migration
		t.all(e, emit)
	case stepThaw:
		if t.Phase == phaseHere {
			return ""
		}
		if t.Phase == phaseGone && !same { // it comes back, and no call of it with it
			t.Phase, t.Migration = phaseHere, o.Key.Migration
			return ""
		}
		if t.Phase == phaseGone || !same {
			return "it is " + t.Phase.String() + ", and not by this migration"
		}
		t.Phase = phaseHere
		t.all(e, emit)
		if t.Closing {
			t.close(emit)
		}
	case stepExport:
		if t.Phase != phaseFrozen || !same {
			return "it is " + t.Phase.String() + " and was not frozen by this migration"
		}
		t.Phase = phaseExported
		t.all(e, emit)
	case stepRelease:
		if t.Phase != phaseExported && t.Phase != phaseArriving || !same {
			return "it is " + t.Phase.String() + ", and not by this migration"
		}
		t.all(e, emit)
		t.Phase, t.Calls = phaseGone, nil
	case stepResume:
		return t.resume(o, e, emit)
	}
	return ""
}

// resume takes in a call from elsewhere.
func (t *thread) resume(o *order, e *event, emit func(told)) (refused string) {
	switch {
	case t.Closed:
		return "it is closed"
	case t.Phase == phaseArriving && t.Migration != o.Key.Migration:
		return "another migration has begun to bring it here: release that first"
	case t.Phase == phaseFrozen || t.Phase == phaseExported || t.Phase == phaseHere && len(t.Calls) > 0:
		return "it is here"
	}
	t.Phase, t.Migration = phaseArriving, o.Key.Migration
	t.Calls = append(t.Calls, o.Key.ID)
	emit(told{ID: o.Key.ID, Event: e})
	return ""
}
