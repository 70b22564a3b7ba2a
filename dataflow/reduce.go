package dataflow

import (
	"cmp"

	"golang.org/x/exp/constraints"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/claims"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Reduce returns the aggregate of all elements of s, in order: step is called with the
// first element as accumulator and each of the others. Unlike the result of [Fold], it is
// absent before the first element. After that it is always present.
func Reduce[T any, L Location, B bounds.Stream, O Ordered, R NoRetries](
	s Stream[T, L, B, O, R], step func(acc *T, x T),
) Optional[T, L, B] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Reduce", step)
	return newOptional[T, L, B](operators.Reduce(n, op, step))
}

// FoldGrowing is [Fold] for an aggregate that only grows, so that singleton.Threshold
// accepts it. The proof says why step never makes it smaller.
func FoldGrowing[T, A any, L Location, B bounds.FoldedGrowing[Out], O Ordered, R NoRetries, Out bounds.Aggregate](
	s Stream[T, L, B, O, R], init func() A, step func(acc *A, x T), why Proof,
) Singleton[A, L, Out] {
	n, op := engine.ReadProved(engine.NodeOf(s), "dataflow.FoldGrowing", why, init, step)
	return newSingleton[A, L, Out](operators.Fold(n, op, init, claims.Growing(op, step)))
}

// FoldCommutative is [Fold] for a stream in any order. The proof says why step gives the
// same aggregate in every order.
func FoldCommutative[T, A any, L Location, B bounds.Stream, O Order, R NoRetries](
	s Stream[T, L, B, O, R], init func() A, step func(acc *A, x T), why Proof,
) Singleton[A, L, B] {
	n, op := engine.ReadProved(engine.NodeOf(s), "dataflow.FoldCommutative", why, init, step)
	engine.Permuted(&n.Head)
	return newSingleton[A, L, B](operators.Fold(n, op, init, claims.Commutative(op, step)))
}

// FoldCommutativeGrowing is [Fold] for a stream in any order and an aggregate that only
// grows, so that singleton.Threshold accepts it. The proof covers both: why step gives the
// same aggregate in every order, and why it never makes it smaller. A repeated element
// would still change the result.
func FoldCommutativeGrowing[T, A any, L Location, B bounds.FoldedGrowing[Out], O Order, R NoRetries, Out bounds.Aggregate](
	s Stream[T, L, B, O, R], init func() A, step func(acc *A, x T), why Proof,
) Singleton[A, L, Out] {
	n, op := engine.ReadProved(engine.NodeOf(s), "dataflow.FoldCommutativeGrowing", why, init, step)
	engine.Permuted(&n.Head)
	return newSingleton[A, L, Out](operators.Fold(n, op, init, claims.Growing(op, claims.Commutative(op, step))))
}

// Sum returns the sum of the elements of s, which is 0 without one. The order of elements
// does not matter, but a repeated element would. A sum that overflows wraps around.
//
// It takes integers only: adding floating-point numbers in another order gives another
// result. Use [Fold] for floating-point numbers that come in order.
func Sum[T constraints.Integer, L Location, B bounds.Stream, O Order, R NoRetries](
	s Stream[T, L, B, O, R],
) Singleton[T, L, B] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Sum")
	return newSingleton[T, L, B](operators.Fold(n, op, func() T { return 0 }, func(sum *T, x T) { *sum += x }))
}

// Min returns the smallest element of s, if there is one. Like the builtin min, it takes a
// NaN as smaller than all. Neither order nor repeats matter.
func Min[T cmp.Ordered, L Location, B bounds.Stream, O Order, R Retries](s Stream[T, L, B, O, R]) Optional[T, L, B] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Min")
	return newOptional[T, L, B](operators.Extreme(n, op, func(a, b T) T { return min(a, b) }))
}

// Max returns the largest element of s, if there is one. Like the builtin max, it takes a
// NaN as larger than all. Neither order nor repeats matter. From the first element on it is
// always present and only grows.
func Max[T cmp.Ordered, L Location, B bounds.FoldedGrowing[Out], O Order, R Retries, Out bounds.Aggregate](
	s Stream[T, L, B, O, R],
) Optional[T, L, Out] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Max")
	return newOptional[T, L, Out](operators.Extreme(n, op, func(a, b T) T { return max(a, b) }))
}
