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
// Setting the timer of a name again moves it.
type Timer uint8

// A Turn is what a function of a [Machine] does about its key. It belongs to that one call:
// using it after the function has returned panics.
//
// What is done takes effect when the function has returned, in this order: what was emitted,
// what was decided, timers, calls, and last of all the end of the life.
//
// The zero Turn is of no flow. It notes what is done, so that a machine can be tested as the
// functions it is made of: see [Turn.Emitted], [Turn.Decision] and [Turn.Forgets]. Its key is
// the zero value.
type Turn[K comparable, U, A any] struct{ noted machines.Turn[K, U, A] }

// Key returns the key.
func (t *Turn[K, U, A]) Key() K { return t.noted.Key() }

// Emit adds an element to the stream of what was emitted, under the key.
func (t *Turn[K, U, A]) Emit(u U) { t.noted.Emit(u) }

// Decide makes a the entry of the key among the decisions. The first decision of a life
// counts, later ones are ignored.
func (t *Turn[K, U, A]) Decide(a A) { t.noted.Decide(a) }

// Forget ends the life of the key, whatever else the function does afterwards: its state, its
// timers and its calls are gone, and its entry among the decisions is forgotten. What was
// emitted stays. The next value of the key begins another life.
func (t *Turn[K, U, A]) Forget() { t.noted.Forget() }

// Emitted returns what was emitted in a zero Turn, in order.
func (t *Turn[K, U, A]) Emitted() []U { return t.noted.Emitted() }

// Decision returns what was decided first in a zero Turn, if something was.
func (t *Turn[K, U, A]) Decision() (decision A, decided bool) { return t.noted.Decision() }

// Forgets reports whether Forget was called of a zero Turn.
func (t *Turn[K, U, A]) Forgets() bool { return t.noted.Forgets() }

// A TimedTurn is a [Turn] with a clock. Timers belong to a life and end with it.
type TimedTurn[K comparable, U, A any] struct{ Turn[K, U, A] }

// After sets a timer: it rings once, d after the time of this record. A timer that is set
// already is moved. If d is not positive, it rings in a later record all the same.
//
// Timers ring in the order of their deadlines, those of one deadline in the order in which
// they were set.
func (t *TimedTurn[K, U, A]) After(timer Timer, d time.Duration) { t.noted.After(uint8(timer), d) }

// Stop stops a timer, if it is set: it does not ring, even if it is due already.
func (t *TimedTurn[K, U, A]) Stop(timer Timer) { t.noted.Stop(uint8(timer)) }

// ForgetAfter has the life of the key end d after the time of this record, as if Forget was
// called then, unless ForgetAfter or Forget is called before. A flow whose inputs are closed
// does not wait for that.
func (t *TimedTurn[K, U, A]) ForgetAfter(d time.Duration) { t.noted.ForgetAfter(d) }

// Now returns the time of this record since the history began. It is the same for all that is
// done in one step. The zero TimedTurn returns 0.
func (t *TimedTurn[K, U, A]) Now() time.Duration { return t.noted.Now() }

// Set returns the time for which a timer was set last in a zero TimedTurn, at least a
// nanosecond, unless it was stopped since.
func (t *TimedTurn[K, U, A]) Set(timer Timer) (d time.Duration, set bool) {
	return t.noted.Set(uint8(timer))
}

// Stops reports whether a timer was stopped in a zero TimedTurn, and not set since.
func (t *TimedTurn[K, U, A]) Stops(timer Timer) bool { return t.noted.Stops(uint8(timer)) }

// ForgetsAfter returns the time that ForgetAfter was given last in a zero TimedTurn, at least
// a nanosecond.
func (t *TimedTurn[K, U, A]) ForgetsAfter() (d time.Duration, set bool) { return t.noted.Idle() }

// A CallingTurn is a [TimedTurn] that can ask the world. Calls belong to a life and end with it.
type CallingTurn[K comparable, U, A, Q any] struct {
	TimedTurn[K, U, A]
	requests []Q
}

// Call asks for something outside of the flow: the function given to [Calling] is called with
// q when the step is released, and its answer is a record for the key like any other. A turn
// that calls cannot forget its key as well: nobody could take the answer.
func (t *CallingTurn[K, U, A, Q]) Call(q Q) {
	t.noted.Check()
	t.requests = append(t.requests, q)
}

// Calls returns what was asked for in a zero CallingTurn, in order.
func (t *CallingTurn[K, U, A, Q]) Calls() []Q { return slices.Clone(t.requests) }
