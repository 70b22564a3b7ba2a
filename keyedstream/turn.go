package keyedstream

import (
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine/machines"
)

// A Timer names one of the timers of a key. A program declares constants:
//
//	const (
//		lease keyedstream.Timer = iota
//		reminder
//	)
//
// Setting a timer that is already set moves it.
type Timer uint8

// A Turn collects what a function of a [Machine] does about its key. It belongs to one call:
// using it after the function has returned panics.
//
// The actions take effect when the function has returned, in this order: emitted elements, the
// decision, timers, calls, and finally the end of the life.
//
// The zero Turn belongs to no flow. It records actions, so that the functions of a machine can
// be tested alone: see [Turn.Emitted], [Turn.Decision] and [Turn.Forgets]. Its key is the zero
// value.
type Turn[K comparable, U, A any] struct{ noted machines.Turn[K, U, A] }

// Key returns the key.
func (t *Turn[K, U, A]) Key() K { return t.noted.Key() }

// Emit adds an element to the stream of emitted elements, under the key.
func (t *Turn[K, U, A]) Emit(u U) { t.noted.Emit(u) }

// Decide makes a the entry of the key among the decisions. The first decision of a life counts;
// later ones are ignored.
func (t *Turn[K, U, A]) Decide(a A) { t.noted.Decide(a) }

// Forget ends the life of the key, whatever else the function does afterwards. The state,
// timers and calls of the key are dropped, and its entry among the decisions is forgotten.
// Emitted elements stay. The next value of the key begins another life.
func (t *Turn[K, U, A]) Forget() { t.noted.Forget() }

// Emitted returns the elements emitted in a zero Turn, in order.
func (t *Turn[K, U, A]) Emitted() []U { return t.noted.Emitted() }

// Decision returns the first decision made in a zero Turn, if there was one.
func (t *Turn[K, U, A]) Decision() (decision A, decided bool) { return t.noted.Decision() }

// Forgets reports whether Forget was called on a zero Turn.
func (t *Turn[K, U, A]) Forgets() bool { return t.noted.Forgets() }

// A TimedTurn is a [Turn] with a clock. Timers belong to a life and end with it.
type TimedTurn[K comparable, U, A any] struct{ Turn[K, U, A] }

// After sets a timer to fire once, d after the time of this record. If the timer is already
// set, it is moved. If d is not positive, the timer still fires in a later record.
//
// Timers fire in the order of their deadlines. Timers with the same deadline fire in the order
// in which they were set.
func (t *TimedTurn[K, U, A]) After(timer Timer, d time.Duration) { t.noted.After(uint8(timer), d) }

// Stop stops a timer, if it is set: it does not fire, even if it is already due.
func (t *TimedTurn[K, U, A]) Stop(timer Timer) { t.noted.Stop(uint8(timer)) }

// ForgetAfter ends the life of the key d after the time of this record, as if Forget were
// called then, unless ForgetAfter or Forget is called before. A flow whose inputs are closed
// does not wait for that.
func (t *TimedTurn[K, U, A]) ForgetAfter(d time.Duration) { t.noted.ForgetAfter(d) }

// Now returns the time of this record since the history began. It is the same throughout one
// step. The zero TimedTurn returns 0.
func (t *TimedTurn[K, U, A]) Now() time.Duration { return t.noted.Now() }

// Set returns the duration with which a timer was last set in a zero TimedTurn, at least a
// nanosecond, unless it was stopped since.
func (t *TimedTurn[K, U, A]) Set(timer Timer) (d time.Duration, set bool) {
	return t.noted.Set(uint8(timer))
}

// Stops reports whether a timer was stopped in a zero TimedTurn and not set since.
func (t *TimedTurn[K, U, A]) Stops(timer Timer) bool { return t.noted.Stops(uint8(timer)) }

// ForgetsAfter returns the duration last passed to ForgetAfter in a zero TimedTurn, at least a
// nanosecond.
func (t *TimedTurn[K, U, A]) ForgetsAfter() (d time.Duration, set bool) { return t.noted.Idle() }

// A CallingTurn is a [TimedTurn] that can call the outside world. Calls belong to a life and
// end with it.
type CallingTurn[K comparable, U, A, Q any] struct {
	TimedTurn[K, U, A]
	requests []Q
}

// Call requests something from outside the flow: the function given to [Calling] is called with
// q when the step is released, and its answer is a record for the key like any other. A turn
// that calls cannot also forget its key: nothing could receive the answer.
func (t *CallingTurn[K, U, A, Q]) Call(q Q) {
	t.noted.Check()
	t.requests = append(t.requests, q)
}

// Calls returns the requests made in a zero CallingTurn, in order.
func (t *CallingTurn[K, U, A, Q]) Calls() []Q { return slices.Clone(t.requests) }
