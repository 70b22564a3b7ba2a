package engine

import (
	"slices"
	"sync"
)

// An Edge turns what one location gives into records of another. It is an output of the one and an input of the other: when a
// step is released, what it gave for the edge is appended to the history of the destination, in order and all at once.
//
// A location whose step has filled the queue of another is stalled, as by an output over its bound, until the other has taken
// what waits. So memory is bounded by the queue plus what one step gives. Locations that send to each other in a circle could all
// wait for each other; the one that would close the circle does not stall. It lets the queue grow over its bound instead, as a
// cycle does with what is fed back.
//
// In a history kept outside, a moved record is like any other, see port/exchange_log.go, and the destination need not run in this
// process.
type Edge struct {
	From, To *Location
	Within   bool // the destination sends to the source, directly or over other locations
	Waiting  bool // the source is stalled by it; guarded by edges.Mu
}

// edges are the edges of a graph.
type edges struct {
	All []*Edge

	Mu sync.Mutex // guards Waiting of all; locked while holding a location's mu
}

// localEdges is what a location keeps about its edges.
type localEdges struct {
	outs []*Edge // that come from it
	scc  *scc    // the locations that it sends to and that send to it, or nil

	// guarded by the location's mu
	idle    bool    // nothing can happen here unless another location of the strongly connected component moves something
	Clogged []*Edge // that wait for this location to take what waits

	freed []*Edge // of these, the ones for which taking has made space; held by the token
}

// An scc is a group of locations that send to each other in circles. None of them ends before the others, since it could still
// receive something: they end when all are idle.
type scc struct {
	mu     sync.Mutex
	active int // locations that are not idle
}

// NewEdge adds an edge to the graph, from a location to that of op.
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

// Reaches reports whether s has a path to target over edges for which pass returns true.
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

// settleEdges finds the strongly connected components. A location does not end before those that send to it: a source outside its
// component counts as a call without an answer.
func (g *Graph) settleEdges() {
	every := func(*Edge) bool { return true }
	for _, l := range g.Edges.All {
		if l.Within = l.To == l.From || l.To.Reaches(l.From, every); !l.Within && !g.Kept() {
			l.To.Calls.Add(1)
		}
	}
	if g.Kept() { // locations do not wait for each other
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

// Arrived records that n records were appended to an input of the edge's destination, whose mu is held, and unlocks mu. It is
// called by the holder of the token of the edge's source, which therefore is not idle.
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

// Awaken makes another goroutine run the location, or end it if it can make no further step. It is called with mu held and
// unlocks it. The caller does not run the location, even if it is idle: the caller is about to run another location, at the same
// time on another processor.
func (s *Location) Awaken() {
	if s.Token.Notify() {
		s.Graph.Driver.HandOver(s)
		return
	}
	s.Mu.Unlock()
}

// Stall keeps the source from running until the destination has made space, unless the destination waits for the source. The
// destination's mu is held.
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

// ResumeStalled lets the locations run that waited for space. It is called with mu held.
func (s *Location) ResumeStalled() {
	if len(s.Edges.Clogged) > 0 {
		s.freeClogged()
		s.ResumeFreed()
	}
}

// freeClogged records, with mu held, that everything that waited is being taken.
func (s *Location) freeClogged() {
	s.Edges.freed, s.Edges.Clogged = s.Edges.Clogged, s.Edges.freed[:0]
}

// ResumeFreed lets the locations run that waited for space.
func (s *Location) ResumeFreed() {
	for _, l := range s.Edges.freed {
		s.Graph.Edges.Mu.Lock()
		l.Waiting = false
		s.Graph.Edges.Mu.Unlock()
		l.From.Resume()
	}
	s.Edges.freed = s.Edges.freed[:0]
}

// End says that no further records will come. After a failure the destination already knows.
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

// Halt ends one location of a simulated graph in the middle of its work because of err. It makes no further step, and the
// locations that it sends to do not wait for it.
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
	s.Graph.locationFinished()
}

// mayEnd reports whether a location at which nothing can happen may end. A location in a strongly connected component may end
// only when nothing can happen at any of the others. It is called with mu held by the holder of the token.
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
	return r.active == 0 // stays 0: only a location that is not idle moves something
}

// A Loop is a cycle while a flow is built, with the cycles that lie between it and what is fed back to it.
type Loop struct {
	Name string
	From []*Loop // cycles that the completing stream follows without a record in between
	Done bool
}

// Reaches returns path extended by the loops from l back to target, or nil. It does not follow a loop that is on the path already,
// since loops that are separated by a record may be circular.
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
