package dataflow

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/port"
)

// A Loop is the open end of a [Cycle], to be completed once.
type Loop[T any, L Location, O Order] struct {
	_     [0]func(T, L, O)
	cycle *port.Cycle[T]
	name  string
}

// Cycle returns a stream that exists before its source does, and the loop that takes
// the source when there is one:
//
//	loop, again := dataflow.Cycle[Job, dataflow.NoOrder](server, "again")
//	jobs := dataflow.Merge(fresh, again)
//	…
//	loop.Complete(failed)
//
// What is fed back becomes a new record of the location's history, behind those that
// wait. It counts in the location's queue, so that inputs wait while much is fed back,
// but it is never refused, so that feedback does not block itself. A flow whose inputs
// are closed ends when nothing is fed back any more; what feeds itself for ever ends
// only with its context.
//
// The source must not follow the cycle step by step: somewhere on the way there is a
// slice, a MapAsync or an After. Anything else panics while the flow is built, with the
// names of the cycles on the way, and so does a flow that is started with a loop that
// was not completed.
func Cycle[T any, O Order, L Location](at L, name string) (*Loop[T, L, O], Stream[T, L, bounds.Unbounded, O, ExactlyOnce]) {
	site := placeOf(at, "dataflow.Cycle").Outside("dataflow.Cycle", "what is fed back comes later and cannot be inside %s: carry it with slice.State")
	c, n := port.NewCycle[T](site, engine.NewOp(site, "dataflow.Cycle "+name, ""))
	return &Loop[T, L, O]{cycle: c, name: name}, newStream[T, L, bounds.Unbounded, O, ExactlyOnce](n)
}

// Complete makes s the source of the cycle. It is called once, before the start.
func (l *Loop[T, L, O]) Complete(s Stream[T, L, bounds.Unbounded, O, ExactlyOnce]) {
	if l == nil || l.cycle == nil {
		engine.Unmade("dataflow.Loop", "loops come from dataflow.Cycle")
	}
	op := "dataflow.Cycle.Complete " + l.name
	l.cycle.Complete(engine.Made(engine.NodeOf(s), op), op)
}
