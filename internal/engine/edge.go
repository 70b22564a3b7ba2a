package engine

import (
	"slices"
	"sync"
)

// An Edge is where what one location gives becomes records of another. It is an output of
// the one and an input of the other: when a step is released, what it gave for the
// edge is appended to the history of the location it goes to, in order and all at once.
//
// A location whose step has filled the queue of another is stalled, as by an output over
// its bound, until the other has taken what waits. So memory is bounded by the queue
// and what one step gives. Where locations send to each other in a circle they could all
// wait for each other; the one that would close the circle does not stall, and lets
// the queue grow over its bound instead, as what is fed back by a cycle does.
//
// In a history kept outside, a moved record is one like any other, see port/exchange_log.go, and
// nobody runs the other location.
type Edge struct {
	From, To *Location
	Within   bool // the location it goes to sends to the one it comes from, over others or not
	Waiting  bool // the location it comes from is stalled by it; guarded by edges.mu
}

// edges are the edges of a graph.
type edges struct {
	All []*Edge

	Mu sync.Mutex // guards waiting of all; taken under the mu of a location
}

// localEdges is what a location knows of its edges.
type localEdges struct {
	outs []*Edge // that come from it
	scc  *scc    // the locations that it sends to and that send to it, or nil

	// guarded by the location's mu
	idle    bool    // nothing can happen here unless another location of the strongly connected component moves something
	Clogged []*Edge // that wait for this location to take what waits

	freed []*Edge // of these, what was taken makes room for; held by the token
}

// An scc is some locations that send to each other in circles. None of them ends before
// the others, since it could get something: they end when all are idle.
type scc struct {
	mu     sync.Mutex
	active int // locations that are not idle
}

// NewEdge adds an edge to the graph, to where op is.
func NewEdge(op *Op, from *Location) *Edge {
	to := op.Loc
	if from.Graph != to.Graph {
		Misuse(op.Name, "%s and %s are locations of different flows", from.Name, to.Name)
	}
	l := &Edge{From: from, To: to}
	from.Edges.outs = append(from.Edges.outs, l)
	from.Graph.Edges.All = append(from.Graph.Edges.All, l)
	return l
}

// Reaches reports whether what is at s can get to target over edges that pass.
func (s *Location) Reaches(target *Location, pass func(*Edge) bool) bool {
	seen := []*Location{s}
	for i := 0; i < len(seen); i++ {
		for _, l := range seen[i].Edges.outs {
			if !pass(l) {
				continue
			}
			if l.To == target {
				return true
			}
			if !slices.Contains(seen, l.To) {
				seen = append(seen, l.To)
			}
		}
	}
	return false
}

// settleEdges finds the strongly connected components. A location does not end before those that send to it: a
// source outside the strongly connected component counts as a call without an answer.
func (g *Graph) settleEdges() {
	every := func(*Edge) bool { return true }
	for _, l := range g.Edges.All {
		if l.Within = l.To == l.From || l.To.Reaches(l.From, every); !l.Within && !g.Kept() {
			l.To.Calls.Add(1)
		}
	}
	if g.Kept() { // its locations do not wait for each other
		return
	}
	inside := func(l *Edge) bool { return l.Within }
	for _, s := range g.Locations {
		if s.Edges.scc != nil || !s.Reaches(s, inside) {
			continue
		}
		r := &scc{}
		for _, t := range g.Locations {
			if t == s || s.Reaches(t, inside) && t.Reaches(s, inside) {
				t.Edges.scc = r
				r.active++
			}
		}
	}
}

// Arrived notes that n records were appended to an input of the location it goes to, whose
// mu is held, and unlocks that. It is called by the holder of the token of the location it
// comes from, which therefore is not idle.
func (l *Edge) Arrived(in Input, d *InputBase, n int) {
	s := l.To
	if s.Edges.idle {
		s.Edges.idle = false
		s.Edges.scc.mu.Lock()
		s.Edges.scc.active++
		s.Edges.scc.mu.Unlock()
	}
	d.Accepted(in, n)
	s.Graph.Driver.Arrived(l)
}

// Awaken has another goroutine run the location, or end it if it can make no further step.
// It is called with mu held and unlocks it. The caller does not run it, even if it is idle:
// it is about to run another location, at the same time on another processor.
func (s *Location) Awaken() {
	if s.Token.Notify() {
		s.Graph.Driver.HandOver(s)
		return
	}
	s.Mu.Unlock()
}

// Stall keeps the location it comes from from running until the other has made room,
// unless that waits for it. The mu of the other is held.
func (l *Edge) Stall() {
	all := &l.From.Graph.Edges
	all.Mu.Lock()
	defer all.Mu.Unlock()
	if l.Waiting || l.From == l.To || l.To.Reaches(l.From, func(l *Edge) bool { return l.Waiting }) {
		return
	}
	l.Waiting = true
	l.From.Stall()
	l.To.Edges.Clogged = append(l.To.Edges.Clogged, l)
}

// MakeRoom lets the locations run that waited for room. It is called with mu held.
func (s *Location) MakeRoom() {
	if len(s.Edges.Clogged) > 0 {
		s.madeRoom()
		s.ResumeFreed()
	}
}

// madeRoom notes, with mu held, that everything that waited is being taken.
func (s *Location) madeRoom() {
	s.Edges.freed, s.Edges.Clogged = s.Edges.Clogged, s.Edges.freed[:0]
}

// ResumeFreed lets the locations run that waited for room.
func (s *Location) ResumeFreed() {
	for _, l := range s.Edges.freed {
		s.Graph.Edges.Mu.Lock()
		l.Waiting = false
		s.Graph.Edges.Mu.Unlock()
		l.From.Resume()
	}
	s.Edges.freed = s.Edges.freed[:0]
}

// End says that no further records will come. After a failure the other location has been
// told already.
func (l *Edge) End(err error) {
	if err != nil || l.From.Graph.Kept() {
		return
	}
	if !l.Within {
		l.To.Calls.Add(-1)
	}
	l.To.Mu.Lock()
	l.To.Awaken()
}

// Halt ends a location of a simulated graph in the middle of its work because of err, and no
// other one: it makes no further step, and the locations that it sends to do not wait for it.
func (s *Location) Halt(err error) {
	if !s.abort(err) {
		return
	}
	for _, l := range s.Edges.outs {
		l.End(nil)
	}
	if r := s.Edges.scc; r != nil && !s.Edges.idle {
		s.Edges.idle = true
		r.mu.Lock()
		r.active--
		r.mu.Unlock()
	}
	s.Graph.siteFinished()
}

// mayEnd reports whether a location at which nothing can happen may end: if it belongs to
// a strongly connected component, when nothing can happen at any of the others. It is called with mu held by
// the holder of the token.
func (s *Location) mayEnd() bool {
	r := s.Edges.scc
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !s.Edges.idle {
		s.Edges.idle = true
		r.active--
	}
	return r.active == 0 // and stays so: only a location that is not idle moves something
}

// A Loop is a cycle while a flow is built: what it is, and which cycles lie between
// it and what was fed back to it.
type Loop struct {
	Name string
	From []*Loop // cycles that the completing stream follows without a record in between
	Done bool
}

// Reaches returns the loops on a way from l back to target, or nil. A loop that was
// visited is not visited again, since loops that a record separates may be circular.
func (l *Loop) Reaches(target *Loop, path []*Loop) []*Loop {
	if slices.Contains(path, l) {
		return nil
	}
	path = append(path, l)
	if l == target {
		return path
	}
	for _, f := range l.From {
		if p := f.Reaches(target, path); p != nil {
			return p
		}
	}
	return nil
}

// union returns the loops in a or b, and leaves both as they are.
func union(a, b []*Loop) []*Loop {
	for _, l := range b {
		if !slices.Contains(a, l) {
			a = append(slices.Clip(a), l)
		}
	}
	return a
}
