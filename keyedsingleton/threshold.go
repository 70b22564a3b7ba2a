package keyedsingleton

import (
	"cmp"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Threshold returns each key of ks with its threshold once its value is at least that
// threshold. It does not matter whether the value or the threshold comes first, nor how
// far the value has gone by then. A key that has no threshold or does not reach it never
// appears.
//
// Since values only grow, a threshold once reached stays reached, and the result never
// changes. A NaN is larger than all, as it is for keyedstream.Max.
//
// Either both are in one slice, or both are outside, where thresholds may also be a
// constant. A key is remembered for as long as the flow runs, with its value or its
// threshold while the other is missing.
func Threshold[K comparable, V cmp.Ordered, L dataflow.Location, B bounds.GrowingValues[Keys], T bounds.Permanent[TKeys], Keys bounds.Final[Out], TKeys bounds.Stream, Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], thresholds dataflow.KeyedSingleton[K, V, L, T],
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.Threshold")
	reached := operators.KThreshold(n, engine.Made(engine.KeyedNodeOf(thresholds), op.Name), op, atLeast[V])
	return newKeyedSingleton[K, V, L, Out](reached)
}

// ThresholdUniform is [Threshold] with one limit for all keys.
func ThresholdUniform[K comparable, V cmp.Ordered, L dataflow.Location, B bounds.GrowingValues[Keys], Keys bounds.Final[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], limit V,
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.ThresholdUniform")
	reached := operators.KUniform(n, op, limit, atLeast[V])
	return newKeyedSingleton[K, V, L, Out](reached)
}

func atLeast[V cmp.Ordered](v, threshold V) bool { return v >= threshold || v != v }
