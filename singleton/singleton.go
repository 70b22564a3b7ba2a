// Package singleton defines functions on a [dataflow.Singleton], one value that stays
// live.
package singleton

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Map returns f of the value, computed again whenever the value changes. The result of
// a value that only grows may change in any way, since f need not preserve order.
func Map[T, U any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	s dataflow.Singleton[T, L, B], f func(T) U,
) dataflow.Singleton[U, L, Out] {
	c, op := engine.Read(engine.ValueNodeOf(s), "singleton.Map", f)
	return newSingleton[U, L, Out](operators.ValueMap(c, op, f))
}

// Zip returns the values of a and b together. Both must be complete, that is, inside
// one slice. For two values that change, a pair could show a combination that never
// existed.
func Zip[A, B any, L dataflow.Location, Bound bounds.Complete](
	a dataflow.Singleton[A, L, Bound], b dataflow.Singleton[B, L, Bound],
) dataflow.Singleton[dataflow.Pair[A, B], L, Bound] {
	c, op := engine.Read(engine.ValueNodeOf(a), "singleton.Zip")
	pair := func(x A, y B) dataflow.Pair[A, B] { return dataflow.Pair[A, B]{First: x, Second: y} }
	return newSingleton[dataflow.Pair[A, B], L, Bound](operators.ValueZip(c, engine.Made(engine.ValueNodeOf(b), op.Name), op, pair))
}

// IntoStream returns the value as a stream of one element. It must be complete, that
// is, inside a slice: each run of the slice gives one element.
func IntoStream[T any, L dataflow.Location, B bounds.Complete](
	s dataflow.Singleton[T, L, B],
) dataflow.Stream[T, L, bounds.Bounded, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	c, op := engine.Read(engine.ValueNodeOf(s), "singleton.IntoStream")
	return newStream[T, L, bounds.Bounded, dataflow.TotalOrder, dataflow.ExactlyOnce](operators.ValueStream(c, op))
}
