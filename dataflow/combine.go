package dataflow

import (
	"cmp"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// Chain returns the elements of first and then those of second, in their order. The
// first must be complete, because elements after a stream that never ends would never
// come: use [Merge] or [MergeOrdered] there.
//
// Either both are in one slice, where second is held back until first is over, or first
// is a constant, whose elements come before all others.
func Chain[T any, L Location, B1 bounds.Complete, B2 bounds.Stream, O Order, R Retries](
	first Stream[T, L, B1, O, R], second Stream[T, L, B2, O, R],
) Stream[T, L, B2, O, R] {
	b, op := engine.Read(engine.NodeOf(second), "dataflow.Chain")
	a := engine.Made(engine.NodeOf(first), op.Name)
	return newStream[T, L, B2, O, R](operators.Chain(a, b, op))
}

// MergeOrdered returns the elements of both streams in one order that keeps the order
// of each.
//
// # Nondeterminism
//
// The runtime chooses how the two are interleaved; why says that the result does not
// show it, or may show it.
func MergeOrdered[T any, L Location, B bounds.Stream, O Ordered, R Retries](
	s, t Stream[T, L, B, O, R], why NonDet,
) Stream[T, L, B, TotalOrder, R] {
	a, op := engine.ReadReasoned(engine.NodeOf(s), "dataflow.MergeOrdered", why)
	b := engine.Made(engine.NodeOf(t), op.Name)
	return newStream[T, L, B, TotalOrder, R](operators.Observe(operators.Merge(op, a, b), op))
}

// Cross returns each element of a together with each element of b, in no particular
// order. Either both are in one slice, or b is a constant.
//
// It keeps b, for as long as the flow runs or, inside a slice, until its run ends. The
// cost is that of the result: as many pairs as the product of the two sizes.
func Cross[T, U any, L Location, B bounds.Stream, O1, O2 Order, R Retries](
	a Stream[T, L, B, O1, R], b Stream[U, L, bounds.Bounded, O2, R],
) Stream[Pair[T, U], L, B, NoOrder, R] {
	n, op := engine.Read(engine.NodeOf(a), "dataflow.Cross")
	pair := func(x T, y U) Pair[T, U] { return Pair[T, U]{x, y} }
	return newStream[Pair[T, U], L, B, NoOrder, R](operators.Product(n, engine.Made(engine.NodeOf(b), op.Name), op, pair))
}

// Partition returns the elements of s for which pred is true, and the others, each in
// the order of s. The predicate is called once for each element.
func Partition[T any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R], pred func(T) bool,
) (yes, no Stream[T, L, B, O, R]) {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Partition", pred)
	y, m := operators.Partition(n, op, pred)
	return newStream[T, L, B, O, R](y), newStream[T, L, B, O, R](m)
}

// Sort returns the elements of s from the smallest to the largest, in O(n log n). The
// stream must be complete, and may be in any order. In a slice, Sort sorts each batch
// separately. A negative zero comes before zero.
func Sort[T cmp.Ordered, L Location, B bounds.Complete, O Order, R Retries](
	s Stream[T, L, B, O, R],
) Stream[T, L, B, TotalOrder, R] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Sort")
	return newStream[T, L, B, TotalOrder, R](operators.Sort(n, op))
}

// WeakenOrder drops the order of s. It costs nothing. Use it to chain s with a stream
// without order, or to pass s where such a stream is required.
func WeakenOrder[T any, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R],
) Stream[T, L, B, NoOrder, R] {
	const name = "dataflow.WeakenOrder"
	return newStream[T, L, B, NoOrder, R](port.Loose(engine.Made(engine.NodeOf(s), name), name, false))
}
