package main

import (
	"slices"
	"time"

	"github.com/millrace/millrace/keyedstream"
)

// A rule lets each client make so many requests in any window of time, wherever the
// window begins.
type rule struct {
	Limit  int
	Window time.Duration
}

// An answer says whether a request may pass, and how many more the client could make
// at once.
type answer struct {
	Passed bool
	Left   int
}

// A notice is what happens to a client's permits: some come back, or a request is answered.
type notice struct {
	Back    int // how many come back; no request is answered then
	Request string
	answer
	At time.Duration // since the limiter began
}

// inUse returns by how many the permits in use change.
func (n notice) inUse() int {
	if n.Passed {
		return 1
	}
	return -n.Back
}

// An account is when the permits that are in use were taken, the first one first. An account
// without any is forgotten.
type account []time.Duration

func noPermits() account { return nil }

// over is the timer of an account: when it rings, the window of the first permit is over.
const over keyedstream.Timer = 0

// A turn is what an account does at once.
type turn = keyedstream.TimedTurn[string, notice, struct{}]

// ask gives a permit to a request if one is left.
func (r rule) ask(a *account, request string, do *turn) {
	r.collect(a, do)
	passed := len(*a) < r.Limit
	if passed {
		*a = append(*a, do.Now())
	}
	do.Emit(notice{Request: request, answer: answer{passed, r.Limit - len(*a)}, At: do.Now()})
	r.wait(*a, do)
}

// end ends the windows that are over.
func (r rule) end(a *account, _ keyedstream.Timer, do *turn) {
	r.collect(a, do)
	r.wait(*a, do)
}

// collect takes back the permits whose windows are over.
func (r rule) collect(a *account, do *turn) {
	left := slices.DeleteFunc(*a, func(taken time.Duration) bool { return do.Now()-taken >= r.Window })
	if back := len(*a) - len(left); back > 0 {
		do.Emit(notice{Back: back, At: do.Now()})
	}
	*a = left
}

// wait waits until the window of the first permit is over.
func (r rule) wait(a account, do *turn) {
	if len(a) == 0 {
		do.Forget()
		return
	}
	do.After(over, a[0]+r.Window-do.Now())
}
