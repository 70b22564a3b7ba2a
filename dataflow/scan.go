package dataflow

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Scan calls step with each element of s and a state, which starts as init's result. It
// returns the elements that step emits, any number for each element of s, in order. The
// function emit must not be called after step has returned.
//
// The state is made when the first element comes. For a separate state for each key,
// see keyedstream.Scan.
func Scan[T, S, U any, L Location, B bounds.Stream, O Ordered, R NoRetries](
	s Stream[T, L, B, O, R], init func() S, step func(state *S, x T, emit func(U)),
) Stream[U, L, B, TotalOrder, ExactlyOnce] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Scan", init, step)
	return newStream[U, L, B, TotalOrder, ExactlyOnce](operators.StreamScan(n, op, init, step))
}

// Enumerate returns each element of s after its index, from 0.
func Enumerate[T any, L Location, B bounds.Stream, O Ordered, R NoRetries](
	s Stream[T, L, B, O, R],
) Stream[Pair[int, T], L, B, TotalOrder, ExactlyOnce] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Enumerate")
	pair := func(i int, x T) Pair[int, T] { return Pair[int, T]{i, x} }
	return newStream[Pair[int, T], L, B, TotalOrder, ExactlyOnce](operators.Enumerate(n, op, pair))
}

// Limit returns the first n elements of s, or all of them if there are fewer. The
// others are ignored; they neither close the inputs of s nor end the flow.
func Limit[T any, L Location, B bounds.Stream, O Ordered, R NoRetries](
	s Stream[T, L, B, O, R], n int,
) Stream[T, L, B, TotalOrder, ExactlyOnce] {
	in, op := engine.Read(engine.NodeOf(s), "dataflow.Limit")
	if n < 0 {
		engine.Misuse(op.Name, "the limit is %d", n)
	}
	return newStream[T, L, B, TotalOrder, ExactlyOnce](operators.Limit(in, op, n))
}

// Unique returns each element of s the first time it comes, so the result has no
// repeats. Elements are compared like the keys of a map: a NaN is equal to none, and a
// negative zero comes out as the zero that it is equal to.
//
// The cost is one table probe for each element. An element is remembered for as long as
// the flow runs, in 22 to 32 bytes plus the element itself.
func Unique[T comparable, L Location, B bounds.Stream, O Order, R Retries](
	s Stream[T, L, B, O, R],
) Stream[T, L, B, O, ExactlyOnce] {
	n, op := engine.Read(engine.NodeOf(s), "dataflow.Unique")
	return newStream[T, L, B, O, ExactlyOnce](operators.Unique(n, op))
}
