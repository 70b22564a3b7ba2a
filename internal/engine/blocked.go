package engine

import (
	"slices"
	"time"
)

// A Blocked says why a location does not run: more waits behind one of its operators than
// may.
type Blocked struct {
	Op      *Op // the output that is not read, the calls that do not return, or the link that does not get on
	Waiting int // elements that nobody has read, or calls that wait for their turn
	Bound   int // how many may
	Calls   bool
	Running int      // calls that run
	Via     []string // locations that wait for that of Op, the first one first
	Cause   error    // why somebody no longer waits; nil in what is only noted
}

// Location returns the name of the location that does not run.
func (b *Blocked) Location() string { return b.Op.site.name }

func (out *Outlet[T]) over() (Blocked, bool) {
	out.mu.Lock()
	defer out.mu.Unlock()
	return Blocked{Op: out.op, Waiting: len(out.buf) - out.off, Bound: out.bound}, out.stalled
}

func (a *async[K, V, U]) over() (Blocked, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return Blocked{Op: a.op, Waiting: max(a.waiting(), 0), Bound: a.site.g.set.Queue, Calls: true, Running: a.running}, a.stalled
}

// heldUp returns why the site itself does not run, or nil.
func (s *Site) heldUp() *Blocked {
	for _, out := range s.outlets {
		if b, stopped := out.over(); stopped {
			return &b
		}
	}
	if r := s.g.set.Remote; r != nil { // the calls of a flow that runs elsewhere are made there
		return r.Stopped(s.number)
	}
	return nil
}

// stopped is heldUp that also follows the links for which the site waits.
func (s *Site) stopped(seen []*Site) *Blocked {
	if b := s.heldUp(); b != nil {
		return b
	}
	seen = append(seen, s)
	for _, l := range s.moving.outs {
		s.g.links.mu.Lock()
		waits := l.waiting
		s.g.links.mu.Unlock()
		if !waits || slices.Contains(seen, l.to) {
			continue
		}
		if b := l.to.stopped(seen); b != nil {
			b.Via = append([]string{s.name}, b.Via...)
			return b
		}
	}
	return nil
}

// blocked returns the error for a caller that no longer waits for the site because of
// cause: one that names what the site is stopped by, if it is.
func (s *Site) blocked(cause error) error {
	return s.g.BlockedError(s.stopped(nil), cause)
}

// starved is blocked for a caller that waits for something the site gives: the site may
// also wait for one that does not run and sends to it.
func (s *Site) starved(cause error) error {
	b := s.stopped(nil)
	for _, from := range s.g.sites {
		if b == nil && from != s && from.reaches(s, func(*link) bool { return true }) {
			if b = from.stopped(nil); b != nil {
				b.Via = append([]string{s.name}, b.Via...)
			}
		}
	}
	return s.g.BlockedError(b, cause)
}

// Unfinished returns the error for a caller that no longer waits for the graph to end
// because of cause: one that names the first thing that a location is stopped by, or the
// calls that have not returned.
func (g *Graph) Unfinished(cause error) error {
	for _, s := range g.sites {
		if b := s.heldUp(); b != nil {
			return g.BlockedError(b, cause)
		}
	}
	for _, s := range g.sites {
		for _, out := range s.outlets {
			if b, _ := out.over(); b.Calls && b.Running > 0 {
				return g.BlockedError(&b, cause)
			}
		}
	}
	return cause
}

// BlockedError returns the error for a caller that no longer waits because of cause: just
// that if b is nil.
func (g *Graph) BlockedError(b *Blocked, cause error) error {
	if b == nil {
		return cause
	}
	mine := *b
	mine.Cause = cause
	return g.set.Blocked(&mine)
}

// patience is how long a site is stopped before somebody is told.
const patience = time.Second

// stall notes that one more outlet keeps the site from running. If that lasts, it is
// noted once for each outlet.
func (s *Site) stall() {
	s.stalled.Add(1)
	s.stalls.Add(1)
	if s.watched.CompareAndSwap(false, true) {
		s.watch()
	}
}

// watch looks again later, and tells what the site has been stopped by all the time. It
// is called by whoever set watched.
func (s *Site) watch() {
	began := s.stalls.Load()
	time.AfterFunc(patience, func() {
		switch {
		case s.stalled.Load() == 0 || s.g.Err() != nil:
			s.watched.Store(false)
			if s.stalled.Load() > 0 && s.g.Err() == nil && s.watched.CompareAndSwap(false, true) {
				s.watch() // it was stopped between the two looks
			}
			return
		case s.stalls.Load() != began:
			s.watch()
			return
		}
		if b := s.heldUp(); b != nil && !s.told[b.Op] {
			if s.told == nil {
				s.told = make(map[*Op]bool)
			}
			s.told[b.Op] = true
			s.g.set.OnBlocked(b)
		}
		s.watched.Store(false)
	})
}

// Stopped returns why the leader takes only records of what was read, or nil: an output
// has more elements that nobody has read than it may hold, or another location does not
// take what is sent to it.
func (l *Leader) Stopped() *Blocked {
	for _, out := range l.site.outlets {
		if out.full() {
			b, _ := out.over()
			return &b
		}
	}
	return nil
}

// Full reports whether the leader takes only records of what was read; see
// [Leader.Stopped].
func (l *Leader) Full() bool { return l.Stopped() != nil }
