// Package live runs a graph in production, with goroutines and the clock of the operating system. The plans of its driver take
// whatever waits, in the order in which it was accepted. Start reading at [Drive].
package live

import (
	"context"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/token"
)

// A driver runs a graph in production. A goroutine that finds a location idle runs it: a sender with its own record, a waiting
// caller that is handed the token, or otherwise a goroutine in the background. A plan takes everything that waits, in the order
// in which it was accepted.
type driver struct{ locations []*location }

// Drive makes an empty graph run in production.
func Drive(g *engine.Graph) *engine.Graph {
	g.Driver = &driver{}
	return g
}

// A location is what a live graph needs for running a location.
type location struct {
	*engine.Location
	epoch time.Time
	hand  chan struct{} // wakes the background goroutine to take the token
	plan  engine.Plan   // of the step being made; held by the token

	// guarded by the location's mu
	due    bool        // a timer fired
	timer  *time.Timer // armed for the deadline armed
	armed  int64
	awaits bool // the location does not end without a timer that is set
}

func (d *driver) of(s *engine.Location) *location { return d.locations[s.Number] }

func (d *driver) Prepare(g *engine.Graph) {
	for _, s := range g.Locations {
		d.locations = append(d.locations, &location{Location: s, armed: engine.NoDeadline, hand: make(chan struct{}, 1)})
	}
}

// Start runs what depends on constants, then what was sent before the start.
func (d *driver) Start(s *engine.Location) {
	l := d.of(s)
	l.epoch = time.Now()
	go d.background(l)
	if !d.Perform(s, &engine.Plan{Start: true, Origin: l.epoch.UnixNano() - 1}) { // the first step is at 1
		return
	}
	s.Mu.Lock()
	d.Settle(s, 1)
}

// background takes over the token when no other goroutine can.
func (d *driver) background(l *location) {
	for {
		select {
		case <-l.Graph.Ctx.Done():
			return
		case <-l.hand:
			l.Mu.Lock()
			d.Settle(l.Location, -1)
		}
	}
}

func (d *driver) Now(s *engine.Location) int64 { return int64(time.Since(d.of(s).epoch)) + 1 }

func (d *driver) Settle(s *engine.Location, n int) (ok bool) {
	l := d.of(s)
	for {
		if s.Asked != nil {
			s.Answer()
		}
		switch {
		case s.Finished:
			s.Vacant = true
			s.Mu.Unlock()
			return true
		case s.Stalled.Load() > 0:
			s.Parked, s.ParkedAt = true, time.Now()
			// A reader that made room in between has not seen Parked.
			if s.Stalled.Load() > 0 {
				s.Mu.Unlock()
				return true
			}
			s.Parked = false
			continue
		case s.Queued == 0 && !l.due:
			if s.Stopping || l.armed == engine.NoDeadline || !l.awaits {
				s.Quiet()
			}
			if s.Queued > 0 { // an ending was accepted
				continue
			}
			if !s.Finished {
				s.Token.Release()
			}
			s.Mu.Unlock()
			return true
		case n == 0:
			d.HandOver(s)
			return true
		}
		n--
		p := d.next(l)
		s.Mu.Unlock()
		s.ResumeFreed()
		if !d.Perform(s, p) {
			return false
		}
		s.Mu.Lock()
	}
}

// next returns the plan of the next step: the timers that are due, if the timer fired, and then everything that was accepted. It
// is called with mu held by the holder of the token.
func (d *driver) next(l *location) *engine.Plan {
	p := &l.plan
	p.Take = l.Take(p.Take)
	p.Now, p.Fire = 0, l.due && !l.Stopping
	if l.due = false; p.Fire {
		p.Now = d.Now(l.Location)
	}
	return p
}

func (d *driver) Perform(s *engine.Location, p *engine.Plan) (ok bool) {
	if p.Fire {
		s.Rearm, s.ArmedFor = true, engine.NoDeadline
	}
	if s.Recorder == nil {
		if ok = s.Step(p); ok {
			s.Release()
		}
		return ok
	}
	s.Recorder.Taken(s, p)
	if ok = s.Step(p); ok {
		n := s.Recorder.Made(s)
		s.Release()
		if r := s.Graph.Settings.Record; r != nil && r.OnPublished != nil {
			r.OnPublished(n, s.Number)
		}
	}
	return ok
}

func (d *driver) HandOver(s *engine.Location) {
	w := s.Waiters.Pop()
	if w == nil {
		s.Mu.Unlock()
		d.of(s).hand <- struct{}{}
		return
	}
	w.HasToken = true
	s.Mu.Unlock()
	w.Signal()
}

func (d *driver) Admit(ctx context.Context, in *engine.InputBase) (engine.Admission, error) {
	return in.AwaitSpace(ctx)
}

func (d *driver) Wait(ctx context.Context, _ *engine.Location, w *token.Waiter) error {
	return w.Wait(ctx)
}

func (d *driver) Deliver(x engine.Delivery) { x.Deliver() }

func (d *driver) Arrived(l *engine.Edge) {
	if l.To.Queued >= l.To.Graph.Settings.Queue {
		l.Stall()
	}
	l.To.Awaken()
}

func (d *driver) Ask(s *engine.Location) <-chan struct{} { return askHolder(s) }

func (d *driver) Bounded() bool { return true }

func (d *driver) Ended(ctx context.Context, g *engine.Graph) error { return g.EndOrFail(ctx) }

func (d *driver) Arm(s *engine.Location) {
	l := d.of(s)
	s.Rearm = false
	next, awaited := engine.NoDeadline, engine.NoDeadline
	for _, q := range s.Timers {
		at, ok := q.Next()
		if !ok {
			continue
		}
		next = min(next, at)
		if !q.Idle() {
			awaited = min(awaited, at)
		}
	}
	s.ArmedFor = awaited // a later timer needs no arming; one after an idle timer does
	s.Mu.Lock()
	defer s.Mu.Unlock()
	l.awaits = awaited != engine.NoDeadline
	if next >= l.armed || s.Finished || s.Stopping {
		return
	}
	l.armed = next
	wait := max(time.Duration(next-int64(time.Since(l.epoch))-1), 0)
	if l.timer == nil {
		l.timer = time.AfterFunc(wait, func() { d.fired(l) })
	} else {
		l.timer.Reset(wait)
	}
}

func (d *driver) Retire(s *engine.Location) {
	if s.Number < len(d.locations) && d.of(s).timer != nil {
		d.of(s).timer.Stop()
	}
}

// fired is called when the timer fires. Like a record, that leads to a step.
func (d *driver) fired(l *location) {
	l.Mu.Lock()
	l.armed = engine.NoDeadline
	if l.Finished || l.Stopping {
		l.Mu.Unlock()
		return
	}
	l.due = true
	if l.Token.Notify() {
		d.Settle(l.Location, 1)
		return
	}
	l.Mu.Unlock()
}

// askHolder is Ask of a driver whose steps are made by the holder of the token. It is called with mu held and unlocks it.
func askHolder(s *engine.Location) <-chan struct{} {
	switch {
	case s.Parked || s.Vacant || !s.Started: // it is not being run, and cannot be while mu is held
		return s.AskBetweenSteps()
	case s.Token.Notify():
		s.CopyFigures()
		s.Graph.Driver.Settle(s, 0)
		return nil
	}
	if s.Asked == nil {
		s.Asked = make(chan struct{})
	}
	asked := s.Asked
	s.Mu.Unlock()
	return asked
}
