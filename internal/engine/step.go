package engine

import (
	"errors"
	"runtime/debug"
	"time"
)

// This file is the one step. Nothing else pushes records of inputs, fires timers or runs slices, and nothing here reads a clock,
// a channel, a lock or a mode: what a step does follows from its plan and the state of the operators.

// Step makes one step: start, timers, records, slices. It publishes nothing. It reports false if a function given to an operator
// did not return. In that case the graph has failed, and nothing of the step is ever published.
func (s *Location) Step(p *Plan) (ok bool) {
	defer s.guard()
	s.more--
	s.now = p.Now
	if s.source.state = noSource; p.Start || p.Fire {
		s.source.state = unknown
	}
	if p.Start {
		s.origin = p.Origin
		s.Starts.run()
	}
	if s.Listens() && len(p.Take) > 0 {
		s.Hear(p.Take, s.Clock())
	}
	if p.Fire {
		s.fireUntil(p.Now)
	}
	for _, t := range p.Take {
		s.more += t.N
		s.Inputs[t.Op].Push(t.N)
	}
	s.end(p.Cut)
	return true
}

// end cuts slices, in topological order, and completes the step.
func (s *Location) end(c Cut) {
	for _, r := range s.Regions {
		if r.News && c.Has(r) {
			s.source.state = unknown
			r.run()
		}
	}
	s.Read, s.now = s.now, 0
	s.completed = true
}

// StepOne makes the step of one record of a plain input, for a sender that holds the token. It is Step for a plan that takes that
// record and cuts all slices, followed by the publication. The record is pushed directly to the input's node n, without a plan
// and a queue.
func StepOne[T any](n *Node[T], x T) (ok bool) {
	s := n.Loc
	defer func() { // guard, without a second call if there is nothing to do
		s.steps++
		if !s.completed {
			s.failed(recover())
		}
		s.completed = false
	}()
	n.One(x)
	if !s.bare() {
		s.end(CutAll)
		s.Release()
	}
	return true
}

// StepAll is StepOne for several records, whose slice remains the sender's.
func StepAll[T any](n *Node[T], xs []T) (ok bool) {
	s := n.Loc
	defer s.guard()
	s.more += len(xs) - 1
	PushBlocks(n, xs)
	s.end(CutAll)
	s.Release()
	return true
}

// StepEntry is StepOne for keyed data.
func StepEntry[K comparable, V any](n *KeyedNode[K, V], k K, v V, h uint64) (ok bool) {
	s := n.Loc
	defer func() {
		s.steps++
		if !s.completed {
			s.failed(recover())
		}
		s.completed = false
	}()
	n.One(k, v, h)
	if !s.bare() {
		s.end(CutAll)
		s.Release()
	}
	return true
}

// StepEntries is StepAll for keyed data. It uses b, which the token's holder provides, for the batches.
func StepEntries[K comparable, V any](n *KeyedNode[K, V], c Columns[K, V], b *Batch[K, V]) (ok bool) {
	s := n.Loc
	defer s.guard()
	s.more += len(c.K) - 1
	PushEntries(n, c, b)
	s.end(CutAll)
	s.Release()
	return true
}

// Planned reports whether senders that run the location make a plan, instead of using [StepOne], [StepAll], [StepEntry] and
// [StepEntries].
func (s *Location) Planned() bool { return s.planned }

// StepTaken makes the step of a sender at a location where senders make plans. The step takes n records that the input has
// already taken, and cuts all slices. The sender holds the token.
func (d *InputBase) StepTaken(n int) (ok bool) {
	d.plan = Plan{Take: append(d.plan.Take[:0], Take{Op: d.Op.Index, N: n})}
	return d.Loc.Graph.Driver.Perform(d.Loc, &d.plan)
}

// bare completes a step that has nothing to cut, release or set a timer for, and reports whether it was such a step. It is short
// enough to be inlined.
func (s *Location) bare() bool {
	if s.ends || s.Rearm || len(s.Ports)+len(s.Later) > 0 {
		return false
	}
	s.now, s.completed = 0, true
	return true
}

// ErrUnwound is the panic that unwinds a function of a simulated graph: the simulation has ended, or the call is made again after
// a crash.
var ErrUnwound = errors.New("engine: the simulation has ended")

// ErrGoexit stands for a function that neither returned nor panicked.
var ErrGoexit = errors.New("the function ended its goroutine with runtime.Goexit, as FailNow of a test does")

// guard turns a panic of a user's function into the end of the flow.
//
// It runs after every step, and calls recover only if the step did not complete.
func (s *Location) guard() {
	s.steps++
	if s.completed {
		s.completed = false
		return
	}
	s.failed(recover())
}

// failed ends the flow because of the value v of a panic, or because a function ended its goroutine if v is nil.
func (s *Location) failed(v any) {
	if v == nil { // runtime.Goexit, as by FailNow of a test
		v = ErrGoexit
	}
	op := s.Ops[s.At]
	p := &Panic{Op: op, Location: s.Name, Value: v, Stack: debug.Stack()}
	if op.Key != nil {
		p.Key, p.HasKey = op.Key(), true
	}
	if s.Recorder != nil { // the step that fails is the one to run again
		s.Read = s.now
		s.Recorder.Made(s)
	}
	s.Graph.Fail(s.Graph.Settings.Wrap(p))
	s.vacate()
}

// Clock returns the time of this step in nanoseconds since the history began. That is the time of its plan or, if the plan has
// none, the time of the driver's clock when the first operator asks.
func (s *Location) Clock() int64 {
	if s.now == untimed {
		panic("millrace: internal error: timers of several deadlines were fired at once before an operator that reads the time: please report it")
	}
	if s.now == 0 {
		s.now = s.Graph.Driver.Now(s)
	}
	return s.now
}

// Alarm returns the deadline of a timer that is set in this step for d, which is not negative: at most [Never].
func (s *Location) Alarm(d time.Duration) int64 {
	now := s.Clock()
	return now + min(int64(d), Never-now)
}

// TellTime is [Location.Clock] for a user's function, which may compare times, so that what it does may depend on all timers of
// the location.
func (s *Location) TellTime() int64 {
	if turns := s.Graph.Settings.Turns; turns != nil {
		turns.Touch(s.Times(), Reads)
	}
	return s.Clock()
}

// WallClock returns the time of this step in nanoseconds since 1970. Like [Location.Clock] it is a function of the history. It
// goes back only while overdue timers fire.
func (s *Location) WallClock() int64 { return s.origin + s.Clock() }

// Origin returns what the wall clock showed when the history of the location began. It is called by the holder of the token, or
// with mu held while there is none.
func (s *Location) Origin() int64 { return s.origin }
