package dataflow

import (
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Interval returns the time since the start at every, twice every, and so on, each when
// that time has come. The time is that of the location: a firing is a record of its
// history like any other. If firings were missed, because the location was busy or an
// output was not read, only the last one comes.
//
// To the flow an interval is an input that only [App.Stop] closes. So [Run] does not
// return when the other inputs are closed, and a flow made by [Local] sees no firing.
// An interval that is not positive panics.
//
// # Nondeterminism
//
// The clock decides what happens before a firing, and which firings are missed.
func Interval[L Location](at L, every time.Duration, why NonDet) Stream[time.Duration, L, bounds.Unbounded, TotalOrder, ExactlyOnce] {
	location := placeOf(at, "dataflow.Interval").Outside("dataflow.Interval", "time passes outside and not in %s")
	op := engine.Reasoned(location, "dataflow.Interval", string(why))
	if every <= 0 {
		engine.Misuse(op.Name, "the interval is %v", every)
	}
	return newStream[time.Duration, L, bounds.Unbounded, TotalOrder, ExactlyOnce](operators.Interval(location, op, every))
}
