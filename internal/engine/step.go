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

// stepOne is step for a plan that takes one record of a plain input and cuts all, made by a
// sender that has the token, and the publication that follows: the record is pushed as it
// is, without a plan and a queue around it.
func (in *Inlet[T]) stepOne(x T) (ok bool) {
	s := in.site
	if s.planned {
		in.taken = append(in.taken, x)
		return s.g.driver.perform(s, in.all(1))
	}
	defer func() { // guard, without a second call where there is nothing to do
		s.steps++
		if !s.completed {
			s.failed(recover())
		}
		s.completed = false
	}()
	in.node.one(x)
	if !s.bare() {
		s.end(CutAll)
		s.release()
	}
	return true
}

// stepAll is stepOne for several records, which the sender does not give away.
func (in *Inlet[T]) stepAll(xs []T) (ok bool) {
	s := in.site
	if s.planned {
		in.taken = append(in.taken, xs...)
		return s.g.driver.perform(s, in.all(len(xs)))
	}
	defer s.guard()
	s.more += len(xs) - 1
	pushBlocks(in.node, xs)
	s.end(CutAll)
	s.release()
	return true
}

// stepOne is [Inlet.stepOne] for keyed data.
func (in *KInlet[K, V]) stepOne(k K, v V, h uint64) (ok bool) {
	s := in.site
	if s.planned {
		in.taken.append(in.hashed, k, v, h)
		return s.g.driver.perform(s, in.all(1))
	}
	defer func() {
		s.steps++
		if !s.completed {
			s.failed(recover())
		}
		s.completed = false
	}()
	in.node.one(k, v, h)
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

// push pushes the next n of what was taken, and forgets them when none is left.
func (in *Inlet[T]) push(n int) {
	pushBlocks(in.node, in.taken[in.off:in.off+n])
	if in.off += n; in.off == len(in.taken) {
		clear(in.taken)
		in.taken, in.off = in.taken[:0], 0
	}
}

// push is [Inlet.push] for keyed data.
func (in *KInlet[K, V]) push(n int) {
	in.span(in.off, n).pushBlocks(in.node, &in.batch)
	if in.off += n; in.off == len(in.taken.k) {
		in.taken.clear()
		in.off = 0
	}
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
