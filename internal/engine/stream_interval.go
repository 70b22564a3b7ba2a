package engine

import "time"

// An interval is a timer that fires again and again, on multiples of its period since
// the start. Of firings that were missed, because the location was busy, only the
// last one happens.
type interval struct {
	every int64
	at    *int64
	out   *Node[time.Duration]
	one   [1]time.Duration

	// In a simulation a schedule needs an end, so that an interval fires only so often until
	// something comes in.
	tired func() bool // whether it has fired often enough; nil if it never has
	fired int
	most  int
}

// An endless timer fires for ever, unless it is told when it is tired.
type endlessTimer interface {
	// tire says how often the timer fires, at most, while news returns the same number.
	tire(most int, news func() int)
}

func (t *interval) tire(most int, news func() int) {
	last := 0
	t.most = most
	t.tired = func() bool {
		if n := news(); last != n {
			last, t.fired = n, 0
		}
		return t.fired >= most
	}
}

func (t *interval) idle() bool { return false }

// Interval returns the times at which a timer fires. To the site it is an input that
// stays open until the flow is stopped.
func Interval(s *Site, op *Op, every time.Duration) *Node[time.Duration] {
	h := s.Top()
	t := &interval{every: int64(every), at: newVar(lasting(op), none), out: NewNode[time.Duration](h)}
	op.scratch(&t.one)
	s.timed(t, op)
	s.clocked(h.part)
	s.open++
	s.starts.atEnd(func() {
		s.mu.Lock()
		closed := s.closing
		s.mu.Unlock()
		if !closed {
			*t.at, s.rearm = t.every, true
		}
	})
	return t.out
}

func (t *interval) next() (int64, bool) {
	if t.tired != nil && t.tired() {
		return none, false
	}
	return *t.at, *t.at != none
}

// skip leaves out all firings up to now but the last. That one happens also in a
// simulation, if it is for another timer that time passes.
func (t *interval) skip(now int64) {
	if *t.at <= now {
		*t.at = now / t.every * t.every
		t.fired = min(t.fired, t.most-1)
	}
}

func (t *interval) expire(now int64) {
	if now < *t.at {
		return
	}
	t.skip(now)
	t.fired++
	t.one[0] = time.Duration(*t.at)
	*t.at += t.every
	t.out.push(t.one[:])
}
