package keyedstream

import (
	"cmp"

	"golang.org/x/exp/constraints"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Sum returns the sum of the values of each key, which wraps around like +. The order of
// values does not matter, but a repeated value would.
//
// It takes integers, since the sum of floating-point numbers depends on their order; use
// [Fold] for those. A sum of values that are never negative only grows; use [FoldGrowing]
// to declare that.
func Sum[K comparable, V constraints.Integer, L dataflow.Location, B bounds.Folded[Out], O dataflow.Order, R dataflow.NoRetries, Out bounds.KeyedSingleton](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Sum")
	sum := operators.KFold(n, op, func() V { return 0 }, func(acc *V, v V) { *acc += v })
	return newKeyedSingleton[K, V, L, Out](sum)
}

// Max returns the largest value of each key, which only grows. Like the builtin max, it
// takes a NaN as larger than all. Neither order nor repeats matter.
func Max[K comparable, V cmp.Ordered, L dataflow.Location, B bounds.FoldedGrowing[Out], O dataflow.Order, R dataflow.Retries, Out bounds.Aggregate](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Max")
	largest := operators.KExtreme(n, op, func(a, b V) V { return max(a, b) })
	return newKeyedSingleton[K, V, L, Out](largest)
}

// Min returns the smallest value of each key. Like the builtin min, it takes a NaN as
// smaller than all. Neither order nor repeats matter.
func Min[K comparable, V cmp.Ordered, L dataflow.Location, B bounds.Folded[Out], O dataflow.Order, R dataflow.Retries, Out bounds.KeyedSingleton](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Min")
	smallest := operators.KExtreme(n, op, func(a, b V) V { return min(a, b) })
	return newKeyedSingleton[K, V, L, Out](smallest)
}
