// Package token implements the run token of a location, which decides who may run it, and the waiters to which it may be handed.
//
// A [Token] is taken and given back with one atomic operation each. A [Waiter] is a goroutine that waits for something a location
// will do; a holder of the token with nothing else to do hands it to a waiter. Start reading at Token.
package token

import (
	"runtime"
	"sync/atomic"
)

// A Token is the run token of a location: its holder may run the location's loop.
//
// A caller that finds it free takes it with one atomic operation, and gives it back with another if nothing was left meanwhile;
// each costs half as much as locking and unlocking a mutex. A caller that leaves something while the token is held changes its
// state to news, which makes the holder look under the location's mutex before it frees the token.
type Token struct {
	_     [64]byte // keeps what spinning callers read off the cache lines that the holder writes
	state atomic.Int32
	spins atomic.Int32 // how often a caller looks before it gives up; see Await
	_     [56]byte
}

const (
	shut int32 = iota // it cannot be taken: the location has not started, or it has ended
	free              // it can be taken
	held              // it has a holder
	news              // it has a holder, which has to look before giving it back
)

// Take takes the token if it is free.
func (g *Token) Take() bool { return g.state.CompareAndSwap(free, held) }

// Await looks again a few times and reports whether it could take the token. A step is usually shorter than leaving a record to
// the holder, waiting for the answer and being woken.
//
// The number of looks adapts: it doubles after a success and halves after a failure, as when steps are long or the holder itself
// asks. With a single processor no other goroutine could give the token back meanwhile.
func (g *Token) Await() bool {
	n := g.spins.Load()
	for range n {
		if g.state.Load() == free && g.Take() {
			if n < maxSpins {
				g.spins.Store(min(2*n, maxSpins))
			}
			return true
		}
	}
	if n > minSpins {
		g.spins.Store(max(n/2, minSpins))
	}
	return false
}

// One look takes about a nanosecond.
const minSpins, maxSpins = 8, 512

// Notify announces that something was left: it takes the token if it is free, and otherwise makes its holder look. It reports
// whether the caller now has the token. It is called with the location's mu held, which the holder needs for looking.
//
// It loops because, between the two attempts, the holder may give the token back and another caller take it without knowing what
// was left.
func (g *Token) Notify() (took bool) {
	for {
		if g.Take() {
			return true
		}
		switch g.state.Load() {
		case shut, news:
			return false
		}
		if g.NotifyHolder() {
			return false
		}
	}
}

// NotifyHolder makes the holder look.
func (g *Token) NotifyHolder() bool { return g.state.CompareAndSwap(held, news) }

// Give gives the token back if nothing was left, and reports whether it did.
func (g *Token) Give() bool { return g.state.CompareAndSwap(held, free) }

// Release gives the token back. It is called by the holder with the location's mu held,
// after looking.
func (g *Token) Release() { g.state.Store(free) }

// Open hands the token to the caller that starts the location.
func (g *Token) Open() {
	if runtime.GOMAXPROCS(0) > 1 {
		g.spins.Store(maxSpins)
	}
	g.state.Store(held)
}

// Shut makes sure that the token is never taken again.
func (g *Token) Shut() { g.state.Store(shut) }

// CacheLinePad separates what one goroutine writes from the cache line that another writes. Moving such a line between processors
// takes longer than the step that needs it.
type CacheLinePad [64]byte
