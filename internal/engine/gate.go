package engine

import "sync/atomic"

// A gate says who may run a site's loop: it is the run token.
//
// Who finds it free takes it with one atomic operation, and gives it back with one if
// nobody left anything meanwhile; that is half the price of a mutex, twice. Whoever
// leaves something while it is held says so by making it news, which sends the holder
// to look under the site's mutex before the token is free again.
type gate struct{ state atomic.Int32 }

const (
	shut int32 = iota // nobody gets it: the site has not started, or it has ended
	free              // nobody has it
	held              // somebody has it
	news              // somebody has it, and has to look before giving it back
)

// take takes the token if it is free.
func (g *gate) take() bool { return g.state.CompareAndSwap(free, held) }

// tell makes the holder look. It is called by the holder itself.
func (g *gate) tell() { g.state.CompareAndSwap(held, news) }

// takeOrTell takes the token, or makes its holder look. It is called with the site's mu
// held, which the holder needs for looking. One of the two has to happen: between an
// attempt to take and one to tell, the holder may have given the token back and another
// one taken it.
func (g *gate) takeOrTell() (taken bool) {
	for {
		switch g.state.Load() {
		case free:
			if g.state.CompareAndSwap(free, held) {
				return true
			}
		case held:
			if g.state.CompareAndSwap(held, news) {
				return false
			}
		default: // it will be looked at, or there is nobody any more
			return false
		}
	}
}

// give gives the token back if nothing was left.
func (g *gate) give() bool { return g.state.CompareAndSwap(held, free) }

// release gives the token back. It is called by the holder with the site's mu held,
// after looking.
func (g *gate) release() { g.state.Store(free) }

// open hands the token to who starts the site.
func (g *gate) open() { g.state.Store(held) }

// shut makes sure that nobody gets the token any more.
func (g *gate) shut() { g.state.Store(shut) }
