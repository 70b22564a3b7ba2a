package engine

import (
	"slices"
	"sync"
)

// A link is where what one site gives becomes records of another. It is an output of
// the one and an input of the other: when a step is released, what it gave for the
// link is appended to the history of the site it goes to, in order and all at once.
//
// A site whose step has filled the queue of another is stalled, as by an output over
// its bound, until the other has taken what waits. So memory is bounded by the queue
// and what one step gives. Where sites send to each other in a circle they could all
// wait for each other; the one that would close the circle does not stall, and lets
// the queue grow over its bound instead, as what is fed back by a [Cycle] does.
//
// In a history kept outside, a moved record is one like any other, see led_move.go, and
// nobody runs the other site.
type link struct {
	from, to *Site
	src, dst *part // of a driven graph: what hangs together with its ends
	within   bool  // the site it goes to sends to the one it comes from, over others or not
	waiting  bool  // the site it comes from is stalled by it; guarded by links.mu
}

// links are the links of a graph.
type links struct {
	all []*link

	mu sync.Mutex // guards waiting of all; taken under the mu of a site
}

// moving is what a site knows of its links.
type moving struct {
	outs []*link // that come from it
	ring *ring   // the sites that it sends to and that send to it, or nil

	// guarded by the site's mu
	idle    bool    // nothing can happen here unless another site of the ring moves something
	clogged []*link // that wait for this site to take what waits

	freed []*link // of these, what was taken makes room for; held by the token
}

// A ring is some sites that send to each other in circles. None of them ends before
// the others, since it could get something: they end when all are idle.
type ring struct {
	mu     sync.Mutex
	active int // sites that are not idle
}

// newLink adds a link to the graph, to where op is.
func newLink(op *Op, from *Site) *link {
	to := op.site
	if from.g != to.g {
		Misuse(op.Name, "%s and %s are locations of different flows", from.name, to.name)
	}
	l := &link{from: from, to: to}
	from.moving.outs = append(from.moving.outs, l)
	from.g.links.all = append(from.g.links.all, l)
	return l
}

// reaches reports whether what is at s can get to target over links that pass.
func (s *Site) reaches(target *Site, pass func(*link) bool) bool {
	seen := []*Site{s}
	for i := 0; i < len(seen); i++ {
		for _, l := range seen[i].moving.outs {
			if !pass(l) {
				continue
			}
			if l.to == target {
				return true
			}
			if !slices.Contains(seen, l.to) {
				seen = append(seen, l.to)
			}
		}
	}
	return false
}

// settleLinks finds the rings. A site does not end before those that send to it: a
// source outside the ring counts as a call without an answer.
func (g *Graph) settleLinks() {
	every := func(*link) bool { return true }
	for _, l := range g.links.all {
		if l.within = l.to == l.from || l.to.reaches(l.from, every); !l.within && !g.Kept() {
			l.to.calls.Add(1)
		}
	}
	if g.Kept() { // its sites do not wait for each other
		return
	}
	inside := func(l *link) bool { return l.within }
	for _, s := range g.sites {
		if s.moving.ring != nil || !s.reaches(s, inside) {
			continue
		}
		r := &ring{}
		for _, t := range g.sites {
			if t == s || s.reaches(t, inside) && t.reaches(s, inside) {
				t.moving.ring = r
				r.active++
			}
		}
	}
}

// arrived notes that n records were appended to an inlet of the site it goes to, whose
// mu is held, and unlocks that. It is called by the holder of the token of the site it
// comes from, which therefore is not idle.
func (l *link) arrived(in input, d *door, n int) {
	s := l.to
	if s.moving.idle {
		s.moving.idle = false
		s.moving.ring.mu.Lock()
		s.moving.ring.active++
		s.moving.ring.mu.Unlock()
	}
	d.accepted(in, n)
	s.g.driver.arrived(l)
}

// stall keeps the site it comes from from running until the other has made room,
// unless that waits for it. The mu of the other is held.
func (l *link) stall() {
	g := l.from.g
	g.links.mu.Lock()
	defer g.links.mu.Unlock()
	if l.waiting || l.from == l.to || l.to.reaches(l.from, func(l *link) bool { return l.waiting }) {
		return
	}
	l.waiting = true
	l.from.stall()
	l.to.moving.clogged = append(l.to.moving.clogged, l)
}

// awaken has somebody run the site, who ends it if nothing can happen any more. It is
// called with mu held and unlocks it. The caller does not run it, even if it is idle:
// it is about to run another site, at the same time on another processor.
func (s *Site) awaken() {
	if s.token.notify() {
		s.g.driver.handOver(s)
		return
	}
	s.mu.Unlock()
}

// madeRoom notes, with mu held, that everything that waited is being taken.
func (s *Site) madeRoom() {
	s.moving.freed, s.moving.clogged = s.moving.clogged, s.moving.freed[:0]
}

// resumeFreed lets the sites run that waited for room.
func (s *Site) resumeFreed() {
	for _, l := range s.moving.freed {
		s.g.links.mu.Lock()
		l.waiting = false
		s.g.links.mu.Unlock()
		l.from.resume()
	}
	s.moving.freed = s.moving.freed[:0]
}

// end says that nothing will come any more. After a failure the other site was told
// that, too.
func (l *link) end(err error) {
	if err != nil || l.from.g.Kept() {
		return
	}
	if !l.within {
		l.to.calls.Add(-1)
	}
	l.to.mu.Lock()
	l.to.awaken()
}

// mayEnd reports whether a site at which nothing can happen may end: if it belongs to
// a ring, when nothing can happen at any of the others. It is called with mu held by
// the holder of the token.
func (s *Site) mayEnd() bool {
	r := s.moving.ring
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !s.moving.idle {
		s.moving.idle = true
		r.active--
	}
	return r.active == 0 // and stays so: only a site that is not idle moves something
}
