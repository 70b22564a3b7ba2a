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

// Forgets reports whether an input forgets keys when the timers fire that are due at now. A put
// of such a key is refused until then.
func (s *Location) Forgets(now int64) bool {
	for _, t := range s.Timers {
		if s.Input(t.op.Index) == nil {
			continue
		}
		if at, pending := t.Next(); pending && at <= now {
			return true
		}
	}
	return false
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
	// Failing returns the timer that is firing: its key, or nil if it has none, and what tells it
	// from others of the key: its number in one byte, and what else [HeldTimer.Hold] looks at.
	// Without a key that is all of it. At is its deadline.
	Failing() (key any, timer []byte, at int64, ok bool)
	// Hold has a timer not fire (codec.KindRung), fire at now (codec.KindRetry), or be
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

// A ManyTimers is a timer queue that can have several deadlines at a time, each of a key. In a
// simulation it fires those that [Location.Picks] says.
type ManyTimers interface {
	TimerQueue
	// Deadlines calls do with the keys and deadlines of all timers that are set.
	Deadlines(do func(key any, at int64))
}

// Deadlines calls do with the parts of operators that have set the location's timers, and their
// deadlines, queue by queue.
func (s *Location) Deadlines(do func(queue int, of Object, at int64)) {
	for i := range s.Timers {
		t := &s.Timers[i]
		if many, ok := t.TimerQueue.(ManyTimers); ok {
			many.Deadlines(func(key any, at int64) { do(i, t.op.Part(key), at) })
		} else if at, ok := t.Next(); ok {
			do(i, t.op.Object(0), at)
		}
	}
}

// TimedByKey reports whether all timers of the location are of keys, outside of slices, and nobody
// listens: what is done with timers of one key has nothing to do with those of others.
func (s *Location) TimedByKey() bool {
	for i := range s.Timers {
		t := &s.Timers[i]
		if _, ok := t.TimerQueue.(ManyTimers); !ok || t.op.inSlice() != nil {
			return false
		}
	}
	return len(s.Timers) > 0 && !s.Listens()
}

// TimedPart reports whether o is a part of an operator that sets timers; see [Op.Part].
func (s *Location) TimedPart(o Object) bool {
	return o.Op >= 0 && o.Key&(1<<63) == 0 && slices.ContainsFunc(s.Timers, func(t timing) bool { return t.op.Index == o.Op })
}

// TouchMarks says that the timers of a deadline move marks of event time, if they do.
func (s *Location) TouchMarks(deadline int64, turns Turns) {
	for i := range s.Timers {
		if at, ok := s.Timers[i].Next(); ok && at == deadline && s.Timers[i].op.marked() {
			turns.Touch(s.Marks(), Writes)
		}
	}
}

// Tiring is the part of an [EndlessTimer] that counts how often it fired. In a simulation a
// schedule needs an end, so that the timer fires only so often until something comes in.
type Tiring struct {
	tired func() bool // whether it has fired often enough; nil if it never has
	fired int
	most  int
}

// Tire implements [EndlessTimer].
func (e *Tiring) Tire(most int, news func() int) {
	last := 0
	e.most = most
	e.tired = func() bool {
		if n := news(); last != n {
			last, e.fired = n, 0
		}
		return e.fired >= most
	}
}

// Tired reports whether the timer has fired often enough.
func (e *Tiring) Tired() bool { return e.tired != nil && e.tired() }

// Fired counts a firing.
func (e *Tiring) Fired() { e.fired++ }

// OnceMore lets a timer that is tired fire once.
func (e *Tiring) OnceMore() { e.fired = min(e.fired, e.most-1) }

// EveryTimer is a TimerQueue of which each timer counts: none is left out, and the location
// does not end before the last one.
type EveryTimer struct{}

// Skip implements [TimerQueue].
func (EveryTimer) Skip(int64) {}

// Idle implements [TimerQueue].
func (EveryTimer) Idle() bool { return false }

// A listener is told when something comes to an operator, or to any input before it.
type listener struct {
	op   *Op
	hear func(now int64)
}

// Listen has hear called in each step that takes something from an input before op, with the
// time of the step, before a timer fires in it. So a record that waits while the location is
// stalled counts from the step that takes it, and not from when it was accepted.
func (s *Location) Listen(op *Op, hear func(now int64)) {
	s.listeners = append(s.listeners, listener{op, hear})
}

// settleListeners finds the inputs before each listener. Whoever runs the location makes plans
// then, so that there is one place at which records are heard.
func (s *Location) settleListeners() {
	for _, l := range s.listeners {
		before := []*Op{l.op}
		for i := 0; i < len(before); i++ {
			if in := s.Input(before[i].Index); in != nil {
				d := in.Base()
				d.hear = append(d.hear, l.hear)
			}
			for _, x := range before[i].Ins {
				if x.Loc == s && !slices.Contains(before, x) {
					before = append(before, x)
				}
			}
		}
	}
}

// Listens reports whether an operator of the location listens.
func (s *Location) Listens() bool { return len(s.listeners) > 0 }

// Hear tells listeners what is taken at now.
func (s *Location) Hear(all []Take, now int64) {
	for _, t := range all {
		for _, hear := range s.Inputs[t.Op].Base().hear {
			hear(now)
		}
	}
}

// HearAll tells all listeners that it is not known until now whether anything would have come:
// the location was stopped.
func (s *Location) HearAll(now int64) {
	for _, l := range s.listeners {
		l.hear(now)
	}
}

// Clocked says that what op does depends on the time, or changes timers.
func (op *Op) Clocked() { op.clocked = true }

// times says what op touches of time whenever something comes to it.
func (op *Op) times(turns Turns) {
	if op.clocked {
		turns.Touch(op.Loc.Times(), Writes)
	}
	if op.marked() {
		turns.Touch(op.Loc.Marks(), Writes)
	}
}

// The numbers of objects that stand for something of a location, as if they were operators.
const (
	clockOp = -1<<30 + iota
	marksOp
	inboxOp
	halfOp
	roomOp
	heldOp
	ticksOp
)

// IsClock reports whether o is the clock of a location.
func (o Object) IsClock() bool { return o.Op == clockOp }

// Times returns what stands for the clock of a location and its timers. The clocks of two locations
// show the same time, but nobody can tell how much has passed between a step of the one and a step
// of the other.
func (s *Location) Times() Object { return Object{int32(s.Number), clockOp, 0} }

// Times is [Location.Times] of the location of o.
func (o Object) Times() Object { return Object{o.Location, clockOp, 0} }

// TimesOf returns what stands for a clock of its own that some timers of a location have, of which o
// is one part.
func TimesOf(o Object) Object {
	return Object{o.Location, clockOp, max(ChainDigest(uint64(o.Op), o.Key), 1)}
}

// Marks returns what stands for the marks of event time of a location, which its operators share.
func (s *Location) Marks() Object { return Object{int32(s.Number), marksOp, 0} }
