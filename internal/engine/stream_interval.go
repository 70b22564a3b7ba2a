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
	s.timers = append(s.timers, t)
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
	if g := t.out.site.g; g.driven() {
		if t.sent != g.sent {
			t.sent, t.fired = g.sent, 0
		}
		if t.fired >= idleFirings {
			return none, false
		}
	}
	return t.at, t.at != none
}

func (t *interval) expire(now int64) {
	if now < t.at {
		return
	}
	t.fired++
	n := now / t.every
	t.at = (n + 1) * t.every
	t.one[0] = time.Duration(n * t.every)
	t.out.push(t.one[:])
}
