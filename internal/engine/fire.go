package engine

import (
	"slices"

	"github.com/millrace/millrace/internal/engine/codec"
)

// A timing is a timer queue of a location, with what decides how it is fired.
type timing struct {
	TimerQueue
	op *Op
	// stepwise says that each deadline is fired by itself, because what follows reads the
	// time. Other queues may fire several deadlines in one batch.
	stepwise bool
}

// untimed is the clock of a step while timers of several deadlines are fired at once.
const untimed = int64(-1 << 63)

// Timed adds a timer queue to the location. Its operator reads the time when it gets something.
func (s *Location) Timed(q TimerQueue, op *Op) {
	op.clock = true
	s.Timers = append(s.Timers, timing{TimerQueue: q, op: op})
}

// orderTimers settles which timer queues are fired deadline by deadline: those from which
// a batch gets to an operator that reads the time, within the same firing. What goes
// through a slice, a cycle or a call comes later, and has the time of that moment.
func (s *Location) orderTimers() {
	follow := make(map[*Op][]*Op)
	for _, op := range s.Ops {
		for _, in := range op.Ins {
			follow[in] = append(follow[in], op)
		}
	}
	for i := range s.Timers {
		t := &s.Timers[i]
		if t.stepwise = t.Idle(); t.stepwise { // it sets itself again
			continue
		}
		if _, t.stepwise = t.TimerQueue.(SteppedTimer); t.stepwise {
			continue
		}
		reached := []*Op{t.op}
		for at := 0; at < len(reached) && !t.stepwise; at++ {
			for _, op := range follow[reached[at]] {
				switch {
				case op.Later || op.region != nil || slices.Contains(reached, op):
				case op.clock:
					t.stepwise = true
				default:
					reached = append(reached, op)
				}
			}
		}
	}
}

// Deadline returns the earliest deadline of the location's timers.
func (s *Location) Deadline() (at int64, ok bool) {
	at = NoDeadline
	for i := range s.Timers {
		if t, pending := s.Timers[i].Next(); pending && t < at {
			at, ok = t, true
		}
	}
	return at, ok
}

// fireUntil fires all timers whose deadline is now or earlier, in order of their
// deadlines over all queues, and each at the time of its deadline: a timer that follows
// from another one counts from there, however late the location got round to it. Timers of
// one deadline fire in the order of construction of their operators, and those of one
// operator in the order in which they were set.
//
// Every way of running a graph fires timers here.
func (s *Location) fireUntil(now int64) {
	for i := range s.Timers {
		s.Timers[i].Skip(now)
	}
	for {
		at, ok := s.Deadline()
		if !ok || at > now {
			break
		}
		for i := range s.Timers {
			t := &s.Timers[i]
			switch next, ok := t.Next(); {
			case !ok || next != at:
			case t.stepwise:
				s.now = at
				t.Expire(at)
			default:
				s.now = untimed
				t.Expire(s.ahead(i, at, now))
			}
		}
	}
	s.now = now
}

// ahead returns up to which deadline queue i may fire before another queue is next. It is
// what keeps a million timers that come due in one stall from being a million batches.
func (s *Location) ahead(i int, at, now int64) int64 {
	for j := range s.Timers {
		if j == i {
			continue
		}
		if next, ok := s.Timers[j].Next(); ok {
			if j < i { // which comes first at the same deadline
				next--
			}
			now = min(now, next)
		}
	}
	return max(at, now)
}

// A SteppedTimer is a timer queue that is fired deadline by deadline, because its own operator
// reads the time when it fires.
type SteppedTimer interface{ Stepwise() }

// A HeldTimer is a timer queue that can hold a timer: a function has failed on it, and all others
// go on.
type HeldTimer interface {
	TimerQueue
	// Blame has Failing say which timer is firing, at some cost.
	Blame(on bool)
	// Failing returns the timer that is firing: its key, and what tells it from others of the key.
	Failing() (key any, timer []byte, ok bool)
	// Hold has a timer not fire (codec.KindRung), fire soon after now (codec.KindRetry), or be
	// stopped (codec.KindDrop). It reports false if it is not set, or was set anew.
	Hold(r *codec.Record, now int64, c codec.Codec) (bool, error)
}

// HeldTimer returns the timer queue of the operator with a number that can hold a timer, or nil.
func (s *Location) HeldTimer(op int32) HeldTimer {
	for _, t := range s.Timers {
		if h, ok := t.TimerQueue.(HeldTimer); ok && t.op.Index == op {
			return h
		}
	}
	return nil
}

// HeldTimers calls do with each timer queue that can hold a timer, and its operator.
func (s *Location) HeldTimers(do func(op *Op, t HeldTimer)) {
	for _, t := range s.Timers {
		if h, ok := t.TimerQueue.(HeldTimer); ok {
			do(t.op, h)
		}
	}
}

// An EndlessTimer fires for ever, unless it is told when it is tired.
type EndlessTimer interface {
	// Tire says how often the timer fires, at most, while news returns the same number.
	Tire(most int, news func() int)
}

// A TimerQueue is the pending timers of one operator.
type TimerQueue interface {
	Next() (at int64, ok bool)
	Running() int     // how many are set
	Expire(now int64) // push what is due, in order of deadlines
	Skip(now int64)   // leave out firings that were missed and do not count
	Idle() bool       // whether the location may end without it
}

// EveryTimer is a TimerQueue of which each timer counts: none is left out, and the location
// does not end before the last one.
type EveryTimer struct{}

// Skip implements [TimerQueue].
func (EveryTimer) Skip(int64) {}

// Idle implements [TimerQueue].
func (EveryTimer) Idle() bool { return false }
