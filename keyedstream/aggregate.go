package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/claims"
	"github.com/millrace/millrace/internal/engine/operators"
)

// First returns the first value of each key and ignores later ones.
//
// A key is remembered for as long as the flow runs, in 22 to 32 bytes plus the key
// itself. Where keys are counted, [dataflow.Sequenced] remembers them in a bit;
// [FirstWithin] forgets them.
func First[K comparable, V any, L dataflow.Location, B bounds.Final[Out], O dataflow.Ordered, R dataflow.NoRetries, Out bounds.KeyedSingleton](
	ks dataflow.KeyedStream[K, V, L, B, O, R], how ...dataflow.Sequence[K],
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.First")
	if s := sequenceOf(op.Name, how); s != nil {
		return newKeyedSingleton[K, V, L, Out](operators.FirstSequenced(n, op, s))
	}
	return newKeyedSingleton[K, V, L, Out](operators.First(n, op))
}

// FoldEarlyStop folds the values of each key, in order, starting from init's result. When
// step returns true the key is complete: its aggregate is released downstream at once,
// even if the stream never ends, and never changes again. Later values of the key are
// ignored. A key that never completes never appears.
//
// Use it for a request that is spread across messages, such as a quorum of votes. A
// complete key is remembered for as long as the flow runs, with an empty aggregate. Where
// keys are counted, [dataflow.Sequenced] remembers them in a bit; [FoldEarlyStopWithin]
// forgets them.
func FoldEarlyStop[K comparable, V, A any, L dataflow.Location, B bounds.Final[Out], O dataflow.Ordered, R dataflow.NoRetries, Out bounds.KeyedSingleton](
	ks dataflow.KeyedStream[K, V, L, B, O, R], init func() A, step func(acc *A, v V) (done bool), how ...dataflow.Sequence[K],
) dataflow.KeyedSingleton[K, A, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.FoldEarlyStop", init, step)
	if s := sequenceOf(op.Name, how); s != nil {
		return newKeyedSingleton[K, A, L, Out](operators.FoldEarlyStopSequenced(n, op, init, step, s))
	}
	return newKeyedSingleton[K, A, L, Out](operators.FoldEarlyStop(n, op, init, step))
}

// Fold calls step, for each key, with an accumulator that starts as init's result and
// each of the key's values, in order. It returns the aggregate, revised as values come.
//
// If the aggregate is a map, slice or pointer that step changes in place, earlier
// snapshots change as well: let step store a fresh one in acc, or read the aggregate only
// inside slices.
func Fold[K comparable, V, A any, L dataflow.Location, B bounds.Folded[Out], O dataflow.Ordered, R dataflow.NoRetries, Out bounds.KeyedSingleton](
	ks dataflow.KeyedStream[K, V, L, B, O, R], init func() A, step func(acc *A, v V),
) dataflow.KeyedSingleton[K, A, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Fold", init, step)
	return newKeyedSingleton[K, A, L, Out](operators.KFold(n, op, init, step))
}

// FoldGrowing is [Fold] for an aggregate that only grows, in an order that the caller
// defines: why says what makes it grow. Unlike [Fold]'s result, this one can be compared
// with a threshold.
func FoldGrowing[K comparable, V, A any, L dataflow.Location, B bounds.FoldedGrowing[Out], O dataflow.Ordered, R dataflow.NoRetries, Out bounds.Aggregate](
	ks dataflow.KeyedStream[K, V, L, B, O, R], init func() A, step func(acc *A, v V), why dataflow.Proof,
) dataflow.KeyedSingleton[K, A, L, Out] {
	n, op := engine.ReadProved(engine.KeyedNodeOf(ks), "keyedstream.FoldGrowing", why, init, step)
	return newKeyedSingleton[K, A, L, Out](operators.KFold(n, op, init, claims.Growing(op, step)))
}

// FoldCommutative is [Fold] for a step that gives the same aggregate for the same values
// in any order: why says why it does. A repeated value would still change the result.
func FoldCommutative[K comparable, V, A any, L dataflow.Location, B bounds.Folded[Out], O dataflow.Order, R dataflow.NoRetries, Out bounds.KeyedSingleton](
	ks dataflow.KeyedStream[K, V, L, B, O, R], init func() A, step func(acc *A, v V), why dataflow.Proof,
) dataflow.KeyedSingleton[K, A, L, Out] {
	n, op := engine.ReadProved(engine.KeyedNodeOf(ks), "keyedstream.FoldCommutative", why, init, step)
	engine.Permuted(&n.Head)
	return newKeyedSingleton[K, A, L, Out](operators.KFold(n, op, init, claims.Commutative(op, step)))
}

// FoldCommutativeGrowing is [Fold] for a step that gives the same aggregate for the same
// values in any order, and for an aggregate that only grows, so that it can be compared
// with a threshold. The proof covers both. A repeated value would still change the
// result.
func FoldCommutativeGrowing[K comparable, V, A any, L dataflow.Location, B bounds.FoldedGrowing[Out], O dataflow.Order, R dataflow.NoRetries, Out bounds.Aggregate](
	ks dataflow.KeyedStream[K, V, L, B, O, R], init func() A, step func(acc *A, v V), why dataflow.Proof,
) dataflow.KeyedSingleton[K, A, L, Out] {
	n, op := engine.ReadProved(engine.KeyedNodeOf(ks), "keyedstream.FoldCommutativeGrowing", why, init, step)
	engine.Permuted(&n.Head)
	return newKeyedSingleton[K, A, L, Out](operators.KFold(n, op, init, claims.Growing(op, claims.Commutative(op, step))))
}

// Reduce is [Fold] for an aggregate that starts as the key's first value: step is called
// with each of the others.
func Reduce[K comparable, V any, L dataflow.Location, B bounds.Folded[Out], O dataflow.Ordered, R dataflow.NoRetries, Out bounds.KeyedSingleton](
	ks dataflow.KeyedStream[K, V, L, B, O, R], step func(acc *V, v V),
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Reduce", step)
	return newKeyedSingleton[K, V, L, Out](operators.KReduce(n, op, step))
}

// Count returns the number of values of each key. The order of values does not matter,
// but a repeated value would.
func Count[K comparable, V any, L dataflow.Location, B bounds.FoldedGrowing[Out], O dataflow.Order, R dataflow.NoRetries, Out bounds.Aggregate](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.KeyedSingleton[K, int, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Count")
	count := operators.KFold(n, op, func() int { return 0 }, func(acc *int, _ V) { *acc++ })
	return newKeyedSingleton[K, int, L, Out](count)
}

// Scan calls step with each value and the state of its key, which starts as init's
// result. It returns the elements that step emits, any number for each value, under that
// key and in order. The function emit must not be called after step has returned.
//
// The state of a key is kept for as long as the flow runs.
func Scan[K comparable, V, S, U any, L dataflow.Location, B bounds.Stream, O dataflow.Ordered, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], init func() S, step func(state *S, v V, emit func(U)),
) dataflow.KeyedStream[K, U, L, B, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Scan", init, step)
	return newKeyedStream[K, U, L, B, dataflow.TotalOrder, dataflow.ExactlyOnce](operators.Scan(n, op, init, step))
}
