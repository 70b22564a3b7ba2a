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

// Cycle returns a stream that exists before its source does, and a loop that is later
// completed with the source.
//
//	loop, again := dataflow.Cycle[Job, dataflow.NoOrder](server, "again")
//	jobs := dataflow.Merge(fresh, again)
//	…
//	loop.Complete(failed)
//
// An element that is fed back becomes a new record of the location's history, behind
// those that wait. It counts in the location's queue, so inputs wait while much is fed
// back. But it is never refused, so feedback does not block itself. A flow whose inputs
// are closed ends when nothing more is fed back. A cycle that feeds itself forever ends
// only with the flow's context.
//
// The path from the cycle to its source must contain a slice, a MapAsync or an After,
// so that the source does not follow within one step. Otherwise the build panics with
// the names of the cycles on the path. Starting a flow with a loop that was not
// completed panics too.
func Cycle[T any, O Order, L Location](at L, name string) (*Loop[T, L, O], Stream[T, L, bounds.Unbounded, O, ExactlyOnce]) {
	location := placeOf(at, "dataflow.Cycle").Outside("dataflow.Cycle", "what is fed back comes later and cannot be inside %s: carry it with slice.State")
	c, n := port.NewCycle[T](location, engine.NewOp(location, "dataflow.Cycle "+name, ""))
	return &Loop[T, L, O]{cycle: c, name: name}, newStream[T, L, bounds.Unbounded, O, ExactlyOnce](n)
}

// Complete makes s the source of the cycle. It must be called once, before the flow
// starts.
func (l *Loop[T, L, O]) Complete(s Stream[T, L, bounds.Unbounded, O, ExactlyOnce]) {
	if l == nil || l.cycle == nil {
		engine.Unmade("dataflow.Loop", "loops come from dataflow.Cycle")
	}
	op := "dataflow.Cycle.Complete " + l.name
	l.cycle.Complete(engine.Made(engine.NodeOf(s), op), op)
}
