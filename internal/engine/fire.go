package engine

import (
	"slices"

	"github.com/millrace/millrace/internal/engine/codec"
)

// A timing is a timer queue of a location, with what decides how it fires.
type timing struct {
	TimerQueue
	op *Op
	// stepwise says that deadlines fire one at a time, because what follows reads the time. Other queues may fire several
	// deadlines in one batch.
	stepwise bool
}

// untimed is the time of a step while timers of several deadlines fire at once.
const untimed = int64(-1 << 63)

// Timed adds a timer queue to the location. Its operator reads the time when it receives something.
func (s *Location) Timed(q TimerQueue, op *Op) {
	op.clock = true
	s.Timers = append(s.Timers, timing{TimerQueue: q, op: op})
}

// orderTimers decides which timer queues fire one deadline at a time: those from which a batch reaches, within the same firing,
// an operator that reads the time. What goes through a slice, a cycle or a call comes later and has the time of that moment.
func (s *Location) orderTimers() {
	follow := make(map[*Op][]*Op)
	for _, op := range s.Ops {
		for _, in := range op.Ins {
			follow[in] = append(follow[in], op)
		}
	}
	for i := range s.Timers {
		t := &s.Timers[i]
		if t.stepwise = t.Idle(); t.stepwise { // an idle timer sets itself again
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

// Forgets reports whether an input forgets keys when the timers due at now fire. Until then a put of such a key is refused.
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

// fireUntil fires all timers whose deadline is now or earlier, in order of their deadlines over all queues. Each fires at the
// time of its deadline, so a timer that follows from another one counts from there, however late the location is. Timers with the
// same deadline fire in the order of construction of their operators; those of one operator fire in the order in which they were
// set.
//
// Every driver fires timers here.
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

// ahead returns the deadline up to which queue i may fire before another queue is next. It keeps a million timers that come due
// during one stall from becoming a million batches.
func (s *Location) ahead(i int, at, now int64) int64 {
	for j := range s.Timers {
		if j == i {
			continue
		}
		if next, ok := s.Timers[j].Next(); ok {
			if j < i { // queue j comes first at the same deadline
				next--
			}
			now = min(now, next)
		}
	}
	return max(at, now)
}

// A SteppedTimer is a timer queue that fires one deadline at a time, because its own operator reads the time when it fires.
type SteppedTimer interface{ Stepwise() }

// A HeldTimer is a timer queue that can hold back a timer on which a function has failed, while all others continue.
type HeldTimer interface {
	TimerQueue
	// Blame turns on the recording of the firing timer for Failing, at some cost.
	Blame(on bool)
	// Failing returns the timer that is firing: its key, or nil if it has none, and an identification of the timer among those of
	// the key, which is its number in one byte and what else [HeldTimer.Hold] looks at. Without a key the identification is
	// complete by itself. at is the deadline.
	Failing() (key any, timer []byte, at int64, ok bool)
	// Hold keeps a timer from firing (codec.KindHeldTimer), fires it at now (codec.KindRetry), or stops it (codec.KindDrop). It
	// reports false if the timer is not set, or was set anew.
	Hold(r *codec.Record, now int64, c codec.Codec) (bool, error)
}

// HeldTimer returns the timer queue of the operator with number op if it can hold a timer, or nil.
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

// An EndlessTimer fires without end, unless Tire limits it.
type EndlessTimer interface {
	// Tire limits how often the timer fires while news returns the same number.
	Tire(most int, news func() int)
}

// A TimerQueue is the pending timers of one operator.
type TimerQueue interface {
	Next() (at int64, ok bool)
	Running() int     // how many are set
	Expire(now int64) // push what is due, in order of deadlines
	Skip(now int64)   // skip missed firings that do not count
	Idle() bool       // whether the location may end without it
}

// A ManyTimers is a timer queue that can have several deadlines at a time, each of a key. In a simulation it fires those that
// [Location.Picks] chooses.
type ManyTimers interface {
	TimerQueue
	// Deadlines calls do with the keys and deadlines of all timers that are set.
	Deadlines(do func(key any, at int64))
}

// Deadlines calls do, queue by queue, with the parts of operators that have set the location's timers and with their deadlines.
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

// TimedByKey reports whether the timers of each key are independent of those of others: all timers of the location belong to
// keys, none is in a slice, and no operator listens.
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

// TouchMarks records an access to the marks of event time if timers of a deadline move them.
func (s *Location) TouchMarks(deadline int64, turns Turns) {
	for i := range s.Timers {
		if at, ok := s.Timers[i].Next(); ok && at == deadline && s.Timers[i].op.marked() {
			turns.Touch(s.Marks(), Writes)
		}
	}
}

// Tiring is the part of an [EndlessTimer] that counts how often it fired. A schedule of a simulation needs an end, so there the
// timer fires only a limited number of times until something comes in.
type Tiring struct {
	tired func() bool // whether it has fired often enough; nil if there is no limit
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

// OnceMore lets a tired timer fire once.
func (e *Tiring) OnceMore() { e.fired = min(e.fired, e.most-1) }

// EveryTimer is embedded by a TimerQueue in which each timer counts: none is skipped, and the location does not end before the
// last one.
type EveryTimer struct{}

// Skip implements [TimerQueue].
func (EveryTimer) Skip(int64) {}

// Idle implements [TimerQueue].
func (EveryTimer) Idle() bool { return false }

// A listener is called when something comes to an operator, or to any input before it.
type listener struct {
	op   *Op
	hear func(now int64)
}

// Listen arranges for hear to be called in each step that takes something from an input before op, with the time of the step,
// before a timer fires in it. So a record that waits while the location is stalled counts from the step that takes it, not from
// its acceptance.
func (s *Location) Listen(op *Op, hear func(now int64)) {
	s.listeners = append(s.listeners, listener{op, hear})
}

// settleListeners finds the inputs before each listener. At a location with listeners, senders make plans, so that there is one
// place at which listeners are called.
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

// Hear calls the listeners of what is taken at now.
func (s *Location) Hear(all []Take, now int64) {
	for _, t := range all {
		for _, hear := range s.Inputs[t.Op].Base().hear {
			hear(now)
		}
	}
}

// HearAll calls all listeners after the location was stopped: until now it was not known whether anything would have come.
func (s *Location) HearAll(now int64) {
	for _, l := range s.listeners {
		l.hear(now)
	}
}

// Clocked declares that what op does depends on the time, or changes timers.
func (op *Op) Clocked() { op.clocked = true }

// times records the accesses to time that op makes whenever something comes to it.
func (op *Op) times(turns Turns) {
	if op.clocked {
		turns.Touch(op.Loc.Times(), Writes)
	}
	if op.marked() {
		turns.Touch(op.Loc.Marks(), Writes)
	}
}

// Operator numbers of objects that represent parts of a location.
const (
	clockOp = -1<<30 + iota
	marksOp
	inboxOp
	partialStepOp
	capacityOp
	backpressureOp
	ticksOp
)

// IsClock reports whether o is the clock of a location.
func (o Object) IsClock() bool { return o.Op == clockOp }

// Times returns the object that represents the clock of a location and its timers. The clocks of two locations show the same
// time, but how much time passes between a step of one and a step of the other cannot be observed.
func (s *Location) Times() Object { return Object{int32(s.Number), clockOp, 0} }

// Times is [Location.Times] for the location of o.
func (o Object) Times() Object { return Object{o.Location, clockOp, 0} }

// TimesOf returns the object that represents a separate clock that some timers of a location have; o is one part of these.
func TimesOf(o Object) Object {
	return Object{o.Location, clockOp, max(ChainDigest(uint64(o.Op), o.Key), 1)}
}

// Marks returns the object that represents the marks of event time of a location, which its operators share.
func (s *Location) Marks() Object { return Object{int32(s.Number), marksOp, 0} }
