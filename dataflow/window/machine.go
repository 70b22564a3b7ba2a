package window

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/windows"
)

// An Alarm names one of the alarms of a key. A program declares constants.
type Alarm uint8

// A Turn collects what a state machine does about its key. It must be used only during the call
// that receives it. The zero Turn records actions and has no effect, for tests of a machine's
// functions.
type Turn[K comparable, U, A any] struct{ is windows.Turn[K, U, A] }

// Key returns the key.
func (t *Turn[K, U, A]) Key() K { return t.is.Key }

// Now returns the time of the event or alarm.
func (t *Turn[K, U, A]) Now() Time { return Time(t.is.Now) }

// Emit emits u at the time of the event or alarm.
func (t *Turn[K, U, A]) Emit(u U) { t.is.Emitted = append(t.is.Emitted, u) }

// Decide makes a the decision of this life of the key, unless it already has one.
func (t *Turn[K, U, A]) Decide(a A) {
	if !t.is.Decided {
		t.is.Decided, t.is.Answer = true, a
	}
}

// Forget ends this life of the key when the turn ends: its state, alarms and decision are
// dropped. Emitted events stay. With its next event the key begins a new life.
func (t *Turn[K, U, A]) Forget() { t.is.Over = true }

// At sets an alarm to fire at a time. If it is already set, it is moved. An alarm whose time is
// not after now fires next.
func (t *Turn[K, U, A]) At(a Alarm, at Time) {
	t.is.Alarms = append(t.is.Alarms, windows.Alarm{Name: uint8(a), At: int64(at)})
}

// Stop cancels an alarm: it does not fire unless it is set again.
func (t *Turn[K, U, A]) Stop(a Alarm) {
	t.is.Alarms = append(t.is.Alarms, windows.Alarm{Name: uint8(a), Stop: true})
}

// Machine runs a state machine for each key. It receives events and alarms in the order of
// their times, an alarm before an event of the same time, once the mark has passed them. Events
// of the same time come in the order of ks. The result depends only on the events, so Machine
// takes no reason.
//
// A life of a key begins with an event: init makes its state, which step changes in place. An
// alarm fires in the life that has set it, and fire is called with it. The result emitted holds what turns emitted, at the
// times of their events and alarms. The result decided holds the decision of each key from
// Decide until Forget.
//
// At the end of time, pending alarms fire. An alarm that is set by such an alarm to a time
// after the last event of all keys does not fire then; otherwise a machine that sets one again
// and again would never end.
func Machine[K comparable, V, S, U, A any, L dataflow.Location, O dataflow.Ordered, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, Event[V], L, bounds.Unbounded, O, R], init func() S,
	step func(state *S, v V, do *Turn[K, U, A]), fire func(state *S, a Alarm, do *Turn[K, U, A]),
) (emitted dataflow.KeyedStream[K, Event[U], L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce], decided dataflow.KeyedSingleton[K, A, L, bounds.RetainedValue]) {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "window.Machine", init, step, fire)
	turn := new(Turn[K, U, A])
	e, d := windows.Machine(n, op, timeOf[V], init,
		func(s *S, e *Event[V]) { step(s, e.Value, turn) },
		func(s *S, a uint8) { fire(s, Alarm(a), turn) }, &turn.is, eventOf[U])
	return newKeyedStream[K, Event[U], L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce](e),
		newKeyedSingleton[K, A, L, bounds.RetainedValue](d)
}
