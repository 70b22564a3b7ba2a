package engine

import (
	"context"
	"time"
)

// A live graph runs in production. Whoever finds a location idle runs it: a sender with
// its own record, a waiting caller who is handed the token, or else a goroutine in the
// background. A plan takes everything that waits, in the order in which it was accepted.
type live struct{ sites []*liveSite }

// Live has an empty graph run in production.
func (g *Graph) Live() *Graph {
	g.driver = &live{}
	return g
}

// A liveSite is what a live graph needs to run a location.
type liveSite struct {
	*Site
	epoch time.Time
	hand  chan struct{} // wakes the background goroutine to take the token
	plan  Plan          // of the step being made; held by the token

	// guarded by the site's mu
	due    bool        // a timer fired
	timer  *time.Timer // armed for the deadline armed
	armed  int64
	awaits bool // it is armed for a timer without which the site does not end
}

func (d *live) of(s *Site) *liveSite { return d.sites[s.number] }

func (d *live) prepare(g *Graph) {
	for _, s := range g.sites {
		d.sites = append(d.sites, &liveSite{Site: s, armed: none, hand: make(chan struct{}, 1)})
	}
}

// start runs what hangs on constants, then what was sent before the start.
func (d *live) start(s *Site) {
	l := d.of(s)
	l.epoch = time.Now()
	go d.background(l)
	if !d.perform(s, &Plan{Start: true}) {
		return
	}
	s.mu.Lock()
	d.settle(s, 1)
}

// background takes the token over when nobody else can.
func (d *live) background(l *liveSite) {
	for {
		select {
		case <-l.g.ctx.Done():
			return
		case <-l.hand:
			l.mu.Lock()
			d.settle(l.Site, -1)
		}
	}
}

func (d *live) now(s *Site) int64 { return int64(time.Since(d.of(s).epoch)) + 1 }

func (d *live) settle(s *Site, n int) (ok bool) {
	l := d.of(s)
	for {
		if s.asked != nil {
			s.answer()
		}
		switch {
		case s.finished:
			s.vacant = true
			s.mu.Unlock()
			return true
		case s.stalled.Load() > 0:
			s.parked, s.parkedAt = true, time.Now()
			// A reader that made room in between has not seen parked.
			if s.stalled.Load() > 0 {
				s.mu.Unlock()
				return true
			}
			s.parked = false
			continue
		case s.queued == 0 && !l.due:
			if s.stopping || l.armed == none || !l.awaits {
				s.quiet()
			}
			if !s.finished {
				s.token.release()
			}
			s.mu.Unlock()
			return true
		case n == 0:
			d.handOver(s)
			return true
		}
		n--
		p := d.next(l)
		s.mu.Unlock()
		s.resumeFreed()
		if !d.perform(s, p) {
			return false
		}
		s.mu.Lock()
	}
}

// next returns the plan of the next step: the timers that are due, if one rang, and then
// everything that was accepted. It is called with mu held by the holder of the token.
func (d *live) next(l *liveSite) *Plan {
	p := &l.plan
	p.Take = l.take(p.Take)
	p.Now, p.Fire = 0, l.due && !l.stopping
	if l.due = false; p.Fire {
		p.Now = d.now(l.Site)
	}
	return p
}

func (d *live) perform(s *Site, p *Plan) (ok bool) {
	if p.Fire {
		s.rearm, s.armedFor = true, none
	}
	if s.recording == nil {
		if ok = s.step(p); ok {
			s.release()
		}
		return ok
	}
	kept := s.copy(p)
	if ok = s.step(p); ok {
		kept.Now = s.read
		n := s.recording.add(s, kept)
		s.release()
		if s.recording.published != nil {
			s.recording.published(n, s.number)
		}
	}
	return ok
}

func (d *live) handOver(s *Site) {
	w := s.waiters.pop()
	if w == nil {
		s.mu.Unlock()
		d.of(s).hand <- struct{}{}
		return
	}
	w.lead = true
	s.mu.Unlock()
	w.signal()
}

func (d *live) admit(ctx context.Context, in *door) (admission, error) { return in.room(ctx) }

func (d *live) wait(ctx context.Context, _ *Site, w *waiter) error { return w.wait(ctx) }

func (d *live) deliver(x delivery) { x.deliver() }

func (d *live) arrived(l *link) {
	if l.to.queued >= l.to.g.set.Queue {
		l.stall()
	}
	l.to.awaken()
}

func (d *live) ask(s *Site) <-chan struct{} { return s.askHolder() }

func (d *live) origin(s *Site) time.Time { return d.of(s).epoch.Add(-1) } // the first step is at 1

func (d *live) bounded() bool { return true }

func (d *live) ended(ctx context.Context, g *Graph) error { return g.endOrFail(ctx) }

func (d *live) arm(s *Site) {
	l := d.of(s)
	s.rearm = false
	next, awaited := none, none
	for _, q := range s.timers {
		at, ok := q.next()
		if !ok {
			continue
		}
		next = min(next, at)
		if !q.idle() {
			awaited = min(awaited, at)
		}
	}
	s.armedFor = awaited // a timer behind it needs no arming, one behind an idle timer does
	s.mu.Lock()
	defer s.mu.Unlock()
	l.awaits = awaited != none
	if next >= l.armed || s.finished || s.stopping {
		return
	}
	l.armed = next
	wait := max(time.Duration(next-int64(time.Since(l.epoch))-1), 0)
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, func() { d.rang(l) })
	} else {
		l.timer.Reset(wait)
	}
}

func (d *live) retire(s *Site) {
	if s.number < len(d.sites) && d.of(s).timer != nil {
		d.of(s).timer.Stop()
	}
}

// rang is called when the timer fired: that is a record of the history like any other.
func (d *live) rang(l *liveSite) {
	l.mu.Lock()
	l.armed = none
	if l.finished || l.stopping {
		l.mu.Unlock()
		return
	}
	l.due = true
	if l.token.notify() {
		d.settle(l.Site, 1)
		return
	}
	l.mu.Unlock()
}
