package engine

import "slices"

// A timing is a timer queue of a site, with what decides how it is fired.
type timing struct {
	timerQueue
	op *Op
	// stepwise says that each deadline is fired by itself, because what follows reads the
	// time. Other queues may fire several deadlines in one batch.
	stepwise bool
}

// untimed is the clock of a step while timers of several deadlines are fired at once.
const untimed = int64(-1 << 63)

// timed adds a timer queue to the site. Its operator reads the time when it gets something.
func (s *Site) timed(q timerQueue, op *Op) {
	op.clock = true
	s.timers = append(s.timers, timing{timerQueue: q, op: op})
}

// orderTimers settles which timer queues are fired deadline by deadline: those from which
// a batch gets to an operator that reads the time, within the same firing. What goes
// through a slice, a cycle or a call comes later, and has the time of that moment.
func (s *Site) orderTimers() {
	follow := make(map[*Op][]*Op)
	for _, op := range s.ops {
		for _, in := range op.ins {
			follow[in] = append(follow[in], op)
		}
	}
	for i := range s.timers {
		t := &s.timers[i]
		if t.stepwise = t.idle(); t.stepwise { // it sets itself again
			continue
		}
		reached := []*Op{t.op}
		for at := 0; at < len(reached) && !t.stepwise; at++ {
			for _, op := range follow[reached[at]] {
				switch {
				case op.later || op.region != nil || slices.Contains(reached, op):
				case op.clock:
					t.stepwise = true
				default:
					reached = append(reached, op)
				}
			}
		}
	}
}

// deadline returns the earliest deadline of the site's timers.
func (s *Site) deadline() (at int64, ok bool) {
	at = none
	for i := range s.timers {
		if t, pending := s.timers[i].next(); pending && t < at {
			at, ok = t, true
		}
	}
	return at, ok
}

// fireUntil fires all timers whose deadline is now or earlier, in order of their
// deadlines over all queues, and each at the time of its deadline: a timer that follows
// from another one counts from there, however late the site got round to it. Timers of
// one deadline fire in the order of construction of their operators, and those of one
// operator in the order in which they were set.
//
// Every way of running a graph fires timers here.
func (s *Site) fireUntil(now int64) {
	for i := range s.timers {
		s.timers[i].skip(now)
	}
	for {
		at, ok := s.deadline()
		if !ok || at > now {
			break
		}
		for i := range s.timers {
			t := &s.timers[i]
			switch next, ok := t.next(); {
			case !ok || next != at:
			case t.stepwise:
				s.now = at
				t.expire(at)
			default:
				s.now = untimed
				t.expire(s.ahead(i, at, now))
			}
		}
	}
	s.now = now
}

// ahead returns up to which deadline queue i may fire before another queue is next. It is
// what keeps a million timers that come due in one stall from being a million batches.
func (s *Site) ahead(i int, at, now int64) int64 {
	for j := range s.timers {
		if j == i {
			continue
		}
		if next, ok := s.timers[j].next(); ok {
			if j < i { // which comes first at the same deadline
				next--
			}
			now = min(now, next)
		}
	}
	return max(at, now)
}
