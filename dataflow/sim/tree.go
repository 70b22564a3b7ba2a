package sim

import (
	"slices"

	"github.com/millrace/millrace/internal/engine/simulate"
)

// A place is where something is chosen: a move, or something else within a move.
type place struct {
	from  *branch         // behind which it is
	depth int             // places before it
	moves []simulate.Name // those that are possible; nil if it is no move that is chosen
	among int

	branches []*branch // in the order in which they are tried; others may be added to moves and times
	next     int       // of these, the first that is not finished

	// where a move is chosen
	asleep []asleep
	back   []bool // moves that have to be tried

	timed bool  // what a clock shows is chosen
	usual int64 // the first of these times
}

// A branch is one choice at a place. Behind it is the next place, unless the execution ends.
//
// What there is behind a branch depends on nothing but the choices before it and on what sleeps
// there, and both are known when the branch is added. So branches can be explored at the same
// time. What an exploration finds for places before it is applied in depth-first order, so that
// the tree becomes the same one however many explore it.
type branch struct {
	at      *place // nil of the first one, behind which everything is
	index   int    // what is chosen
	time    int64  // that is chosen
	state   state
	behind  *place
	effect  *simulate.Effect // of the move, once it was made
	inner   bool             // something is chosen within the move
	events  []event          // from this choice to the next one
	pending [][]addition     // found behind it while a branch before it is not finished
	stop    *verdict         // why nothing behind it in depth-first order matters
}

// A state is how far the exploration of a branch is.
type state uint8

const (
	waiting  state = iota
	running        // an execution goes there for the first time
	explored       // one was there
	finished       // everything behind it was explored
)

// asleep is a move that was tried before, and what it did.
type asleep struct {
	name   simulate.Name
	effect *simulate.Effect
}

// An addition has one of some moves be tried at a place, unless one of them is anyway, or a time.
type addition struct {
	depth int // of the place
	heads []simulate.Name
	time  int64 // to be tried, if the place is one of times
}

// sleeps reports whether a move is asleep at p.
func (p *place) sleeps(n simulate.Name) bool {
	return slices.ContainsFunc(p.asleep, func(a asleep) bool { return a.name == n })
}

// add has a move be tried.
func (p *place) add(i int) {
	if p.back[i] {
		return
	}
	p.back[i] = true
	if !p.sleeps(p.moves[i]) {
		p.branches = append(p.branches, &branch{at: p, index: i})
	}
}

// apply adds a time, or the first of some moves that is possible, or all if none is.
func (p *place) apply(a addition) {
	if p.timed {
		if !slices.ContainsFunc(p.branches, func(b *branch) bool { return b.time == a.time }) {
			p.branches = append(p.branches, &branch{at: p, time: a.time})
		}
		return
	}
	first := -1
	for _, h := range a.heads {
		k := slices.Index(p.moves, h)
		if k >= 0 && p.back[k] {
			return
		}
		if first < 0 {
			first = k
		}
	}
	if first >= 0 {
		p.add(first)
		return
	}
	for k := range p.back { // so nothing is missed
		p.add(k)
	}
}

// path returns the branches to b, with b.
func (b *branch) path() []*branch {
	if b.at == nil {
		return nil
	}
	all := make([]*branch, b.at.depth+1)
	for ; b.at != nil; b = b.at.from {
		all[b.at.depth] = b
	}
	return all
}

// known reports whether all is known of what the move of b does, also if what is chosen within it
// is something else.
func (b *branch) known() bool {
	return b.state == finished || b.state == explored && !b.inner
}

// open returns the first branch behind b, or b, that waits and can be explored. If there is none
// before a branch with a verdict, it returns that one. It notes whether it has passed a branch
// that is being explored.
func (b *branch) open(passed *bool) (found *branch) {
	switch {
	case b.stop != nil, b.state == waiting:
		return b
	case b.state == running:
		*passed = true
		return nil
	case b.behind == nil:
		return nil
	}
	p := b.behind
	known := true
	for _, c := range p.branches[p.next:] {
		if c.state == waiting && !known {
			break // those behind it sleep in what it does
		}
		if found := c.open(passed); found != nil {
			return found
		}
		known = known && (p.moves == nil || c.known())
	}
	return nil
}

// give applies additions that were found behind b to its place, and to those before it. They
// wait while a branch before b may have some.
func (b *branch) give(found []addition) {
	for ; b.at != nil && len(found) > 0; b = b.at.from {
		p := b.at
		if p.branches[p.next] != b {
			b.pending = append(b.pending, found)
			return
		}
		n := 0
		for n < len(found) && found[n].depth == p.depth {
			p.apply(found[n])
			n++
		}
		found = found[n:]
	}
}

// finish notes that everything behind b was explored, and what follows from that.
func (b *branch) finish() {
	b.state, b.behind, b.events = finished, nil, nil
	if b.at == nil {
		return
	}
	for p := b.at; p.branches[p.next].state == finished; {
		if p.next++; p.next == len(p.branches) {
			p.from.finish()
			return
		}
		c := p.branches[p.next]
		held := c.pending
		c.pending = nil
		for _, found := range held {
			c.give(found)
		}
	}
}
