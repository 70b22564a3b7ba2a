package engine

import (
	"fmt"
	"slices"
	"time"
)

// A Blocked says why a location does not run: more waits behind one of its operators than allowed.
type Blocked struct {
	Op      *Op // the output that is not read, the calls that do not return, or the edge that does not move
	Waiting int // unread elements, or calls that wait for their turn
	Bound   int // how many may wait
	Calls   bool
	Running int      // calls that run
	Via     []string // locations that wait for that of Op, the first waiting one first
	Cause   error    // why the caller stopped waiting; nil in a report
}

// Location returns the name of the location that does not run.
func (b *Blocked) Location() string { return b.Op.Loc.Name }

// heldUp returns why the location itself does not run, or nil.
func (s *Location) heldUp() *Blocked {
	for _, out := range s.OutputsInOrder {
		if b, stopped := out.Over(); stopped {
			found := b // a copy, so that b itself need not be on the heap for outputs that stop nothing
			return &found
		}
	}
	if r := s.Graph.Settings.Remote; r != nil { // the calls of a flow that runs elsewhere are made there
		return r.Stopped(s.Number)
	}
	return nil
}

// HeldUpBy describes why a location of a simulated graph does not run.
func (s *Location) HeldUpBy() string {
	if b := s.heldUp(); b != nil {
		return fmt.Sprintf("%d elements wait at %s", b.Waiting, b.Op)
	}
	i := slices.IndexFunc(s.Edges.outs, func(l *Edge) bool { return l.Waiting })
	to := s.Edges.outs[i].To
	return fmt.Sprintf("%d records wait at %s", to.Queued, to.Name)
}

// stopped is heldUp, but also follows the edges for which the location waits.
func (s *Location) stopped(seen []*Location) *Blocked {
	if b := s.heldUp(); b != nil {
		return b
	}
	seen = append(seen, s)
	for _, l := range s.Edges.outs {
		s.Graph.Edges.Mu.Lock()
		waits := l.Waiting
		s.Graph.Edges.Mu.Unlock()
		if !waits || slices.Contains(seen, l.To) {
			continue
		}
		if b := l.To.stopped(seen); b != nil {
			b.Via = append([]string{s.Name}, b.Via...)
			return b
		}
	}
	return nil
}

// WaitError returns the error for a caller that stopped waiting for the location because of cause. It names what stops the
// location, if anything does.
func (s *Location) WaitError(cause error) error {
	return s.Graph.BlockedError(s.stopped(nil), cause)
}

// Starved is WaitError for a caller that waits for something the location gives. The location may also be waiting for a stopped
// location that sends to it.
func (s *Location) Starved(cause error) error {
	b := s.stopped(nil)
	for _, from := range s.Graph.Locations {
		if b == nil && from != s && from.Reaches(s, func(*Edge) bool { return true }) {
			if b = from.stopped(nil); b != nil {
				b.Via = append([]string{s.Name}, b.Via...)
			}
		}
	}
	return s.Graph.BlockedError(b, cause)
}

// Unfinished returns the error for a caller that stopped waiting for the graph to end because of cause. It names the first thing
// that stops a location, or the calls that have not returned.
func (g *Graph) Unfinished(cause error) error {
	for _, s := range g.Locations {
		if b := s.heldUp(); b != nil {
			return g.BlockedError(b, cause)
		}
	}
	for _, s := range g.Locations {
		for _, out := range s.OutputsInOrder {
			if b, _ := out.Over(); b.Calls && b.Running > 0 {
				return g.BlockedError(&b, cause)
			}
		}
	}
	return cause
}

// BlockedError returns the error for a caller that stopped waiting because of cause. If b is nil, that is cause itself.
func (g *Graph) BlockedError(b *Blocked, cause error) error {
	if b == nil {
		return cause
	}
	mine := *b
	mine.Cause = cause
	return g.Settings.Blocked(&mine)
}

// patience is how long a location is stopped before that is reported.
const patience = time.Second

// Stall records that one more output keeps the location from running. If that lasts, it is reported once for each output.
func (s *Location) Stall() {
	s.Stalled.Add(1)
	if s.Simulated() { // no time passes
		s.Graph.Settings.Turns.Touch(s.Backpressure(), Writes)
		return
	}
	s.stalls.Add(1)
	if s.watched.CompareAndSwap(false, true) {
		s.watch()
	}
}

// watch checks again later, and reports what the location has been stopped by if it was stopped all the time. It is called by the
// goroutine that set watched.
func (s *Location) watch() {
	began := s.stalls.Load()
	time.AfterFunc(patience, func() {
		switch {
		case s.Stalled.Load() == 0 || s.Graph.Err() != nil:
			s.watched.Store(false)
			if s.Stalled.Load() > 0 && s.Graph.Err() == nil && s.watched.CompareAndSwap(false, true) {
				s.watch() // it was stopped between the two checks
			}
			return
		case s.stalls.Load() != began:
			s.watch()
			return
		}
		if b := s.heldUp(); b != nil && !s.reportedBlocking[b.Op] {
			if s.reportedBlocking == nil {
				s.reportedBlocking = make(map[*Op]bool)
			}
			s.reportedBlocking[b.Op] = true
			s.Graph.Settings.OnBlocked(b)
		}
		s.watched.Store(false)
	})
}
