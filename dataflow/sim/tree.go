package sim

import (
	"slices"

	"github.com/millrace/millrace/internal/engine/simulate"
)

// A place is where something is chosen: a move, or something within a move.
type place struct {
	from  *branch         // the branch before it
	depth int             // number of places before it
	moves []simulate.Name // the possible moves; nil if the choice is not a move
	among int

	branches []*branch // in the order in which they are tried; others may be added for moves and times
	next     int       // index of the first branch that is not finished

	// if a move is chosen
	asleep []asleep
	back   []bool // moves that must be tried

	timed bool  // the choice is what a clock shows
	usual int64 // the first of these times
}

// A branch is one choice at a place. The next place comes after it, unless the execution ends.
//
// What comes after a branch depends only on the choices before it and on what sleeps there, and
// both are known when the branch is added. So branches can be explored at the same time. What an
// exploration finds for places before it is applied in depth-first order, so that the tree is the
// same with any number of workers.
type branch struct {
	at         *place // nil for the first branch, after which everything comes
	index      int    // the choice
	time       int64  // the chosen time
	state      state
	behind     *place
	effect     *simulate.Effect // of the move, after it was made
	inner      bool             // something is chosen within the move
	events     []event          // from this choice to the next one
	pending    [][]addition     // found after it while a branch before it is not finished
	conclusion *conclusion      // why nothing after it in depth-first order matters
}

// A state is the progress of the exploration of a branch.
type state uint8

const (
	waiting  state = iota
	running        // an execution goes there for the first time
	explored       // an execution was there
	finished       // everything after it was explored
)

// An asleep is a move that was tried before, and what it did.
type asleep struct {
	name   simulate.Name
	effect *simulate.Effect
}

// An addition requires that one of some moves is tried at a place, unless one of them is tried
// anyway, or that a time is tried.
type addition struct {
	depth int // of the place
	heads []simulate.Name
	time  int64 // to be tried, if a time is chosen at the place
}

// sleeps reports whether a move is asleep at p.
func (p *place) sleeps(n simulate.Name) bool {
	return slices.ContainsFunc(p.asleep, func(a asleep) bool { return a.name == n })
}

// add schedules move i.
func (p *place) add(i int) {
	if p.back[i] {
		return
	}
	p.back[i] = true
	if !p.sleeps(p.moves[i]) {
		p.branches = append(p.branches, &branch{at: p, index: i})
	}
}

// apply adds a time, or the first of some moves that is possible, or all moves if none is.
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
	for k := range p.back { // so that nothing is missed
		p.add(k)
	}
}

// path returns the branches that lead to b, including b.
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

// known reports whether it is known what the move of b does, for all choices within the move.
func (b *branch) known() bool {
	return b.state == finished || b.state == explored && !b.inner
}

// open returns the first branch at or after b that waits and can be explored. If there is none
// before a branch with a conclusion, it returns that branch. It sets passed if it has passed a
// branch that is being explored.
func (b *branch) open(passed *bool) (found *branch) {
	switch {
	case b.conclusion != nil, b.state == waiting:
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

// give applies additions that were found after b to its place, and to those before it. They wait
// while a branch before b may have additions.
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

// finish marks b as completely explored, and applies what follows from that.
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
