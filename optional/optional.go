// Package optional defines functions on a [dataflow.Optional], at most one value that
// stays live.
//
// A value may come and, unless the bound forbids it, go again:
//
//	highest := dataflow.Max(bids)
//	price := optional.UnwrapOr(highest, singleton.Of(server, reserve))
//
// An absent value is neither the zero value nor an error. Functions that need a value,
// such as [Map], wait for one. [IntoSingleton], [UnwrapOr], [IsSome] and [IsNone] turn
// its absence into a value.
package optional

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Map returns f of the value while there is one, computed again whenever the value
// changes. The result of a value that only grows may change in any way, since f need
// not preserve order.
func Map[T, U any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	o dataflow.Optional[T, L, B], f func(T) U,
) dataflow.Optional[U, L, Out] {
	c, op := engine.Read(engine.ValueNodeOf(o), "optional.Map", f)
	return newOptional[U, L, Out](operators.ValueFilterMap(c, op, func(v T) (U, bool) { return f(v), true }))
}

// Filter returns the value while there is one that satisfies keep.
func Filter[T any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	o dataflow.Optional[T, L, B], keep func(T) bool,
) dataflow.Optional[T, L, Out] {
	c, op := engine.Read(engine.ValueNodeOf(o), "optional.Filter", keep)
	return newOptional[T, L, Out](operators.ValueFilterMap(c, op, func(v T) (T, bool) { return v, keep(v) }))
}

// FilterMap returns the result of f while f returns true with it, and nothing while
// there is no value or f returns false.
func FilterMap[T, U any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	o dataflow.Optional[T, L, B], f func(T) (U, bool),
) dataflow.Optional[U, L, Out] {
	c, op := engine.Read(engine.ValueNodeOf(o), "optional.FilterMap", f)
	return newOptional[U, L, Out](operators.ValueFilterMap(c, op, f))
}

// Or returns the value of a while it has one, else that of b while it has one.
func Or[T any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	a, b dataflow.Optional[T, L, B],
) dataflow.Optional[T, L, Out] {
	c, op := engine.Read(engine.ValueNodeOf(a), "optional.Or")
	return newOptional[T, L, Out](operators.ValueOr(c, engine.Made(engine.ValueNodeOf(b), op.Name), op))
}

// UnwrapOr returns the value of o while it has one, else that of fallback. Either both
// are in one slice, or fallback is a constant.
func UnwrapOr[T any, L dataflow.Location, B bounds.Altered[Out], Out bounds.Stream](
	o dataflow.Optional[T, L, B], fallback dataflow.Singleton[T, L, bounds.Bounded],
) dataflow.Singleton[T, L, Out] {
	c, op := engine.Read(engine.ValueNodeOf(o), "optional.UnwrapOr")
	return newSingleton[T, L, Out](operators.ValueUnwrapOr(c, engine.Made(engine.ValueNodeOf(fallback), op.Name), op))
}

// Zip returns the values of a and b together, if both have one. Both must be complete,
// that is, inside one slice. For two values that change, a pair could show a
// combination that never existed.
func Zip[A, B any, L dataflow.Location, Bound bounds.Complete](
	a dataflow.Optional[A, L, Bound], b dataflow.Optional[B, L, Bound],
) dataflow.Optional[dataflow.Pair[A, B], L, Bound] {
	c, op := engine.Read(engine.ValueNodeOf(a), "optional.Zip")
	pair := func(x A, y B) dataflow.Pair[A, B] { return dataflow.Pair[A, B]{First: x, Second: y} }
	return newOptional[dataflow.Pair[A, B], L, Bound](operators.ValueZip(c, engine.Made(engine.ValueNodeOf(b), op.Name), op, pair))
}
