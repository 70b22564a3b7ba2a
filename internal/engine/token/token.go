// Package token has the run token of a location, which says who may run it, and the waiters
// that may be handed it.
//
// A [Token] is taken and given back with one atomic operation each. A [Waiter] is a goroutine
// that waits for something a location will do; whoever has the token and nothing else to do
// hands it to one. Start reading at Token.
package token

import (
	"runtime"
	"sync/atomic"
)

// A Token says who may run a location's loop: it is the run token.
//
// Who finds it free takes it with one atomic operation, and gives it back with one if
// nobody left anything meanwhile; that is half the price of a mutex, twice. Whoever
// leaves something while it is held says so by making it news, which sends the holder
// to look under the location's mutex before the token is free again.
type Token struct {
	_     [64]byte // what others look at while they spin shares no cache line with what the holder writes
	state atomic.Int32
	spins atomic.Int32 // how often a caller looks before it gives up; see await
	_     [56]byte
}

const (
	shut int32 = iota // nobody gets it: the location has not started, or it has ended
	free              // nobody has it
	held              // somebody has it
	news              // somebody has it, and has to look before giving it back
)

// Take takes the token if it is free.
func (g *Token) Take() bool { return g.state.CompareAndSwap(free, held) }

// Await looks again a few times and reports whether it could take the token. A step is
// short, as a rule shorter than leaving a record to its holder, waiting for the answer
// and being woken.
//
// How often it looks is what helped lately: twice as often after it helped, half as
// often after it did not, as when steps are long or when it is the holder itself that
// asks. With a single processor nobody could give the token back meanwhile.
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

// Looking takes about a nanosecond.
const minSpins, maxSpins = 8, 512

// Notify says that something was left: it takes the token if it is free, and else makes
// its holder look. It is called with the location's mu held, which the holder needs for
// looking, and reports whether the caller has the token now.
//
// It has to go round, because between the two attempts the holder may give the token
// back and somebody else take it, who has not heard of what was left.
func (g *Token) Notify() (took bool) {
	for {
		if g.Take() {
			return true
		}
		switch g.state.Load() {
		case shut, news:
			return false
		}
		if g.Tell() {
			return false
		}
	}
}

// Tell makes the holder look.
func (g *Token) Tell() bool { return g.state.CompareAndSwap(held, news) }

// Give gives the token back if nothing was left.
func (g *Token) Give() bool { return g.state.CompareAndSwap(held, free) }

// Release gives the token back. It is called by the holder with the location's mu held,
// after looking.
func (g *Token) Release() { g.state.Store(free) }

// Open hands the token to who starts the location.
func (g *Token) Open() {
	if runtime.GOMAXPROCS(0) > 1 {
		g.spins.Store(maxSpins)
	}
	g.state.Store(held)
}

// Shut makes sure that nobody takes the token again.
func (g *Token) Shut() { g.state.Store(shut) }

// CacheLinePad keeps what is written by one goroutine off the cache line of what is written by
// another, since each such line goes from processor to processor, which takes longer than
// the step that needs it.
type CacheLinePad [64]byte
