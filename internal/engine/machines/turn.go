package machines

import (
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine"
)

// A Turn records what one call of a function of a machine does about its key. The operator reuses one for all calls. The zero
// Turn belongs to no operator, and keeps recording.
type Turn[K comparable, U, A any] struct {
	key    K
	phase  phase
	loc    *engine.Location
	us     []U
	a      A
	some   bool // a was decided
	forget bool
	timers []action
	idle   time.Duration
	idles  bool // the key is to be forgotten after idle
}

type phase byte

const (
	detached phase = iota // belongs to no operator
	open
	over
)

// An action sets a timer, or stops it if d is stopped.
type action struct {
	id uint8
	d  time.Duration
}

const stopped = math.MinInt64

// Check panics if the function that the turn was given to has returned.
func (t *Turn[K, U, A]) Check() {
	if t.phase == over {
		panic("keyedstream: the turn is used after the function that it was given to has returned")
	}
}

// Key returns the key of the turn.
func (t *Turn[K, U, A]) Key() K {
	t.Check()
	return t.key
}

// Emit records an element.
func (t *Turn[K, U, A]) Emit(u U) {
	t.Check()
	t.us = append(t.us, u)
}

// Decide records a decision, unless there is one.
func (t *Turn[K, U, A]) Decide(a A) {
	t.Check()
	if !t.some {
		t.a, t.some = a, true
	}
}

// Forget records that the life ends.
func (t *Turn[K, U, A]) Forget() {
	t.Check()
	t.forget = true
}

// After records that a timer is set.
func (t *Turn[K, U, A]) After(id uint8, d time.Duration) {
	t.Check()
	t.timers = append(t.timers, action{id, max(d, 1)})
}

// Stop records that a timer is stopped.
func (t *Turn[K, U, A]) Stop(id uint8) {
	t.Check()
	t.timers = append(t.timers, action{id, stopped})
}

// ForgetAfter records when the life ends unless a later turn changes that.
func (t *Turn[K, U, A]) ForgetAfter(d time.Duration) {
	t.Check()
	t.idle, t.idles = max(d, 1), true
}

// Now returns the time of the turn since the history began, or 0 if the turn belongs to no operator.
func (t *Turn[K, U, A]) Now() time.Duration {
	t.Check()
	if t.loc == nil {
		return 0
	}
	return time.Duration(t.loc.TellTime())
}

// Emitted returns what was emitted.
func (t *Turn[K, U, A]) Emitted() []U { return slices.Clone(t.us) }

// Decision returns what was decided.
func (t *Turn[K, U, A]) Decision() (a A, some bool) { return t.a, t.some }

// Forgets reports whether the life ends.
func (t *Turn[K, U, A]) Forgets() bool { return t.forget }

// Set returns the duration for which a timer was last set, unless it was stopped afterwards.
func (t *Turn[K, U, A]) Set(id uint8) (d time.Duration, set bool) {
	for _, x := range slices.Backward(t.timers) {
		if x.id == id && x.d != stopped {
			return x.d, true
		} else if x.id == id {
			break
		}
	}
	return 0, false
}

// Stops reports whether a timer was stopped and not set afterwards.
func (t *Turn[K, U, A]) Stops(id uint8) bool {
	for _, x := range slices.Backward(t.timers) {
		if x.id == id {
			return x.d == stopped
		}
	}
	return false
}

// Idle returns the duration that was given to ForgetAfter, if any.
func (t *Turn[K, U, A]) Idle() (d time.Duration, set bool) { return t.idle, t.idles }

// begin starts a turn of a key.
func (t *Turn[K, U, A]) begin(k K) { t.key, t.phase = k, open }

// end clears what was recorded, after it was carried out.
func (t *Turn[K, U, A]) end() {
	t.phase = over
	if len(t.us) > 0 {
		clear(t.us)
		t.us = t.us[:0]
	}
	if t.some {
		var none A
		t.a, t.some = none, false
	}
	t.forget, t.idles, t.timers = false, false, t.timers[:0]
}
