package engine

import (
	"errors"
	"runtime/debug"
)

// This file is the one step. Nothing else pushes records of inputs, fires timers or runs
// slices, and nothing here reads a clock, a channel, a lock or a mode: what a step does
// follows from its plan and the state of the operators.

// step makes one step: start, timers, records, slices. It publishes nothing. It reports
// false if a function given to an operator did not return: the graph has failed then, and
// nothing of the step is ever published.
func (s *Site) step(p *Plan) (ok bool) {
	defer s.guard()
	s.more--
	s.now = p.Now
	if p.Start {
		s.starts.run()
	}
	if p.Fire {
		s.fireUntil(p.Now)
	}
	for _, t := range p.Take {
		s.more += t.N
		s.inputs[t.Op].push(t.N)
	}
	s.end(p.Cut)
	return true
}

// end cuts slices, in topological order, and completes the step.
func (s *Site) end(c Cut) {
	for _, r := range s.regions {
		if r.news && c.has(r) {
			r.run()
		}
	}
	s.read, s.now = s.now, 0
	s.completed = true
}

// A planner makes the plan of a sender that runs the location, where all steps have one: it
// takes the records and returns the plan that takes them.
type planner[T any] interface {
	planOf(x T) *Plan
	planAll(xs []T) *Plan // of records that the sender does not give away
}

// A keyedPlanner is a planner for an entry.
type keyedPlanner[K comparable, V any] interface {
	planOf(k K, v V, h uint64) *Plan
}

// stepOne is step for a plan that takes one record of a plain input and cuts all, made by a
// sender that has the token, and the publication that follows: the record is pushed as it
// is to the node n of the input, without a plan and a queue around it.
func stepOne[T any](n *Node[T], x T, in planner[T]) (ok bool) {
	s := n.site
	if s.planned {
		return s.g.driver.perform(s, in.planOf(x))
	}
	defer func() { // guard, without a second call where there is nothing to do
		s.steps++
		if !s.completed {
			s.failed(recover())
		}
		s.completed = false
	}()
	n.one(x)
	if !s.bare() {
		s.end(CutAll)
		s.release()
	}
	return true
}

// stepAll is stepOne for several records, which the sender does not give away.
func stepAll[T any](n *Node[T], xs []T, in planner[T]) (ok bool) {
	s := n.site
	if s.planned {
		return s.g.driver.perform(s, in.planAll(xs))
	}
	defer s.guard()
	s.more += len(xs) - 1
	pushBlocks(n, xs)
	s.end(CutAll)
	s.release()
	return true
}

// stepEntry is stepOne for keyed data.
func stepEntry[K comparable, V any](n *KNode[K, V], k K, v V, h uint64, in keyedPlanner[K, V]) (ok bool) {
	s := n.site
	if s.planned {
		return s.g.driver.perform(s, in.planOf(k, v, h))
	}
	defer func() {
		s.steps++
		if !s.completed {
			s.failed(recover())
		}
		s.completed = false
	}()
	n.one(k, v, h)
	if !s.bare() {
		s.end(CutAll)
		s.release()
	}
	return true
}

// all returns the plan that takes n records of the input, which has taken them, and cuts
// all. The holder of the token may use it until it is asked for again.
func (d *door) all(n int) *Plan {
	d.plan = Plan{Take: append(d.plan.Take[:0], Take{Op: d.op.index, N: n})}
	return &d.plan
}

// bare completes a step that has nothing to cut, release or note, and reports whether it
// was one. It is short enough to be inlined.
func (s *Site) bare() bool {
	if s.ends || s.rearm || len(s.ports)+len(s.later) > 0 {
		return false
	}
	s.now, s.completed = 0, true
	return true
}

// pushBlocks pushes xs in batches of a block at most.
func pushBlocks[T any](n *Node[T], xs []T) {
	if len(xs) == 1 {
		n.one(xs[0])
		return
	}
	for size := block[T](); len(xs) > 0; {
		k := min(size, len(xs))
		n.push(xs[:k:k])
		xs = xs[k:]
	}
}

// errGoexit stands for a function that neither returned nor panicked.
var errGoexit = errors.New("the function ended its goroutine with runtime.Goexit, as FailNow of a test does")

// guard turns a panic of a user's function into the end of the flow.
//
// It runs after every step, so it asks for a panic only if there may be one.
func (s *Site) guard() {
	s.steps++
	if s.completed {
		s.completed = false
		return
	}
	s.failed(recover())
}

// failed ends the flow with what a function panicked with, or nil if it ended its
// goroutine.
func (s *Site) failed(v any) {
	if v == nil { // runtime.Goexit, as by FailNow of a test
		v = errGoexit
	}
	op := s.ops[s.at]
	p := &Panic{Op: op, Site: s.name, Value: v, Stack: debug.Stack()}
	if op.key != nil {
		p.Key, p.HasKey = op.key(), true
	}
	s.g.Fail(s.g.set.Wrap(p))
	s.vacate()
}

// clock returns the time of this step in nanoseconds since the history began: that of its
// plan, or if the plan does not say it, what the driver's clock shows when the first
// operator asks.
func (s *Site) clock() int64 {
	if s.now == untimed {
		panic("millrace: internal error: timers of several deadlines were fired at once before an operator that reads the time: please report it")
	}
	if s.now == 0 {
		s.now = s.g.driver.now(s)
	}
	return s.now
}
