package engine

import (
	"errors"
	"runtime/debug"
)

// This file is the one step. Nothing else pushes records of inputs, fires timers or runs
// slices, and nothing here reads a clock, a channel, a lock or a mode: what a step does
// follows from its plan and the state of the operators.

// Step makes one step: start, timers, records, slices. It publishes nothing. It reports
// false if a function given to an operator did not return: the graph has failed then, and
// nothing of the step is ever published.
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

// StepOne is Step for a plan that takes one record of a plain input and cuts all, made by a
// sender that has the token, and the publication that follows: the record is pushed as it
// is to the node n of the input, without a plan and a queue around it.
func StepOne[T any](n *Node[T], x T) (ok bool) {
	s := n.Loc
	defer func() { // guard, without a second call where there is nothing to do
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

// StepAll is StepOne for several records, which the sender does not give away.
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

// StepEntries is StepAll for keyed data. The holder of the token lends b for the batches.
func StepEntries[K comparable, V any](n *KeyedNode[K, V], c Columns[K, V], b *Batch[K, V]) (ok bool) {
	s := n.Loc
	defer s.guard()
	s.more += len(c.K) - 1
	c.PushBlocks(n, b)
	s.end(CutAll)
	s.Release()
	return true
}

// Planned reports whether senders that run the location make a plan, and not the step of
// [StepOne], [StepAll], [StepEntry] and [StepEntries].
func (s *Location) Planned() bool { return s.planned }

// StepTaken makes the step of a sender where senders make plans: of n records of the input,
// which has taken them, and with all that is cut. The sender has the token.
func (d *InputBase) StepTaken(n int) (ok bool) {
	d.plan = Plan{Take: append(d.plan.Take[:0], Take{Op: d.Op.Index, N: n})}
	return d.Loc.Graph.Driver.Perform(d.Loc, &d.plan)
}

// bare completes a step that has nothing to cut, release or note, and reports whether it
// was one. It is short enough to be inlined.
func (s *Location) bare() bool {
	if s.ends || s.Rearm || len(s.Ports)+len(s.Later) > 0 {
		return false
	}
	s.now, s.completed = 0, true
	return true
}

// ErrUnwound is the panic that ends a function of a simulated graph: the simulation has ended, or a
// crash has the call made again.
var ErrUnwound = errors.New("engine: the simulation has ended")

// ErrGoexit stands for a function that neither returned nor panicked.
var ErrGoexit = errors.New("the function ended its goroutine with runtime.Goexit, as FailNow of a test does")

// guard turns a panic of a user's function into the end of the flow.
//
// It runs after every step, so it asks for a panic only if there may be one.
func (s *Location) guard() {
	s.steps++
	if s.completed {
		s.completed = false
		return
	}
	s.failed(recover())
}

// failed ends the flow with what a function panicked with, or nil if it ended its
// goroutine.
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

// Clock returns the time of this step in nanoseconds since the history began: that of its
// plan, or if the plan does not say it, what the driver's clock shows when the first
// operator asks.
func (s *Location) Clock() int64 {
	if s.now == untimed {
		panic("millrace: internal error: timers of several deadlines were fired at once before an operator that reads the time: please report it")
	}
	if s.now == 0 {
		s.now = s.Graph.Driver.Now(s)
	}
	return s.now
}

// TellTime is [Location.Clock] for a function of a user, which may compare times: what it does may
// depend on all timers of the location.
func (s *Location) TellTime() int64 {
	if turns := s.Graph.Settings.Turns; turns != nil {
		turns.Touch(s.Times(), Reads)
	}
	return s.Clock()
}

// WallClock returns the time of this step in nanoseconds since 1970. Like [Location.Clock] it is
// a function of the history, and goes back only while timers fire that are overdue.
func (s *Location) WallClock() int64 { return s.origin + s.Clock() }

// Origin returns what the wall clock showed when the history of the location began. The holder
// of the token asks, or anybody with mu held while there is none.
func (s *Location) Origin() int64 { return s.origin }
