package engine

import "time"

// An interval is a timer that fires again and again, on multiples of its period since
// the start. Of firings that were missed, because the location was busy, only the
// last one happens.
type interval struct {
	every int64
	at    int64
	out   *Node[time.Duration]
	one   [1]time.Duration

	fired int // of a driven graph: since record number sent was accepted
	sent  int
}

// idleFirings is how often an interval of a driven graph fires without anything
// having come in: it has no end, and a schedule needs one.
const idleFirings = 3

// Interval returns the times at which a timer fires. To the site it is an input that
// stays open until the flow is stopped.
func Interval(s *Site, op *Op, every time.Duration) *Node[time.Duration] {
	h := s.Top()
	t := &interval{every: int64(every), at: none, out: NewNode[time.Duration](h)}
	keepsVar(op, &t.at)
	s.timed(t, op)
	s.clocked(h.part)
	s.open++
	s.starts.atEnd(func() {
		s.mu.Lock()
		closed := s.closing
		s.mu.Unlock()
		if !closed {
			t.at, s.rearm = t.every, true
		}
	})
	return t.out
}

func (t *interval) next() (int64, bool) {
	if g := t.out.site.g; g.set.Choose != nil { // a recording says itself how often it fires
		if t.sent != g.sent {
			t.sent, t.fired = g.sent, 0
		}
		if t.fired >= idleFirings {
			return none, false
		}
	}
	return t.at, t.at != none
}

// skip leaves out all firings up to now but the last. That one happens in a driven graph,
// too, if it is for another timer that time passes.
func (t *interval) skip(now int64) {
	if t.at <= now {
		t.at = now / t.every * t.every
		t.fired = min(t.fired, idleFirings-1)
	}
}

func (t *interval) expire(now int64) {
	if now < t.at {
		return
	}
	t.skip(now)
	t.fired++
	t.one[0] = time.Duration(t.at)
	t.at += t.every
	t.out.push(t.one[:])
}
