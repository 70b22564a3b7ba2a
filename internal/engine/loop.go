package engine

import (
	"errors"
	"runtime/debug"
	"time"
)

// settle runs up to n batches of what has been accepted (all of it if n < 0), then
// gives the token away. It is called with mu held by the holder of the token and
// returns with mu free. It reports false if a step that it ran failed: the token then
// stays held, so that nothing of that step is ever released.
func (s *Site) settle(n int) (ok bool) {
	for {
		switch {
		case s.finished:
			s.mu.Unlock()
			return true
		case s.stalled.Load() > 0:
			s.parked = true
			// A reader that made room in between has not seen parked.
			if s.stalled.Load() > 0 {
				s.mu.Unlock()
				return true
			}
			s.parked = false
			continue
		case s.queued == 0 && !s.due:
			if s.quiet(); !s.finished {
				s.token.release()
			}
			s.mu.Unlock()
			return true
		case n == 0:
			s.handOver()
			return true
		}
		n--
		s.take()
		s.mu.Unlock()
		if !s.work() {
			return false
		}
		s.mu.Lock()
	}
}

// handOver passes the token to the oldest waiter or else to the background
// goroutine. It is called with mu held and returns with mu free.
func (s *Site) handOver() {
	w := s.waiters.pop()
	if w == nil {
		s.mu.Unlock()
		s.hand <- struct{}{}
		return
	}
	w.lead = true
	s.mu.Unlock()
	w.signal()
}

// resume is called by a reader when an output is below its bound again.
func (s *Site) resume() {
	if s.stalled.Add(-1) > 0 {
		return
	}
	s.mu.Lock()
	if !s.parked {
		s.mu.Unlock()
		return
	}
	s.parked = false
	s.handOver()
}

// take moves what has been accepted to the token's side and makes room.
func (s *Site) take() {
	s.order, s.taken = s.taken[:0], s.order
	s.touched, s.inrun = s.inrun[:0], s.touched
	for _, in := range s.inrun {
		in.swap()
	}
	s.queued = 0
	if s.senders > 0 {
		s.waiters.wakeAll()
	}
	if len(s.moving.clogged) > 0 {
		s.madeRoom()
	}
}

// work is one step: push what was taken, cut, publish. It reports false if the step
// failed.
func (s *Site) work() (ok bool) {
	defer s.guard()
	if len(s.moving.freed) > 0 {
		s.resumeFreed()
	}
	s.fire()
	for _, x := range s.taken {
		if s.recording != nil {
			x.in.record(x.n)
		}
		x.in.pushTaken(x.n)
	}
	for _, in := range s.inrun {
		in.drop()
	}
	s.finish()
	return true
}

// bare ends a step that has nothing to cut, release or note, and reports whether it was
// one. It is short enough to be inlined.
func (s *Site) bare() bool {
	if s.ends || s.rearm || len(s.ports)+len(s.later) > 0 {
		return false
	}
	s.now, s.completed = 0, true
	return true
}

// finish ends a step: it cuts every slice that has news, in topological order, and
// publishes what came out.
func (s *Site) finish() {
	for _, r := range s.regions {
		if r.news {
			r.run()
		}
	}
	if s.recording != nil {
		s.recordStep()
	}
	s.now = 0
	if s.rearm {
		s.arm()
	}
	s.publish()
	s.completed = true
}

// errGoexit stands for a function that neither returned nor panicked.
var errGoexit = errors.New("the function ended its goroutine with runtime.Goexit, as FailNow of a test does")

// guard turns a panic of a user's function into the end of the flow.
//
// It runs after every step, so it asks for a panic only if there may be one.
func (s *Site) guard() {
	if s.completed {
		s.completed = false
		return
	}
	v := recover()
	if v == nil { // runtime.Goexit, as by FailNow of a test
		v = errGoexit
	}
	op := s.ops[s.at]
	p := &Panic{Op: op, Site: s.name, Value: v, Stack: debug.Stack()}
	if op.key != nil {
		p.Key, p.HasKey = op.key(), true
	}
	s.g.Fail(s.g.set.Wrap(p))
}

// clock returns the time of this step in nanoseconds since the start.
func (s *Site) clock() int64 {
	if s.now == untimed {
		panic("millrace: internal error: timers of several deadlines were fired at once before an operator that reads the time: please report it")
	}
	if s.now == 0 && s.g.driven() {
		s.now = max(s.g.virtual, 1)
	} else if s.now == 0 {
		s.now = int64(time.Since(s.epoch)) + 1
	}
	return s.now
}
