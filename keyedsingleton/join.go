package keyedsingleton

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// JoinKeyedStream returns each value of stream whose key is in ks, together with the
// key's value in ks, in the order of stream. Values of other keys are dropped: use
// [LookupKeyedSingleton] to keep misses.
//
// Both must be complete, that is, inside one slice. The cost is one table probe for
// each value.
func JoinKeyedStream[K comparable, V, W any, L dataflow.Location, B bounds.Complete, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedSingleton[K, V, L, B], stream dataflow.KeyedStream[K, W, L, bounds.Bounded, O, R],
) dataflow.KeyedStream[K, dataflow.Pair[V, W], L, bounds.Bounded, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.JoinKeyedStream")
	pair := func(w W, v V) dataflow.Pair[V, W] { return dataflow.Pair[V, W]{First: v, Second: w} }
	return newKeyedStream[K, dataflow.Pair[V, W], L, bounds.Bounded, O, R](operators.Join(engine.Made(engine.KeyedNodeOf(stream), op.Name), n, op, pair))
}

// JoinKeyedSingleton returns the keys present in both a and b, with the value of
// each. Both must be complete, that is, inside one slice.
//
// The cost is one table probe for each key of a: put the smaller collection, usually
// the batch, first.
func JoinKeyedSingleton[K comparable, V, W any, L dataflow.Location, B bounds.Complete](
	a dataflow.KeyedSingleton[K, V, L, B], b dataflow.KeyedSingleton[K, W, L, B],
) dataflow.KeyedSingleton[K, dataflow.Pair[V, W], L, B] {
	n, op := engine.Read(engine.KeyedNodeOf(a), "keyedsingleton.JoinKeyedSingleton")
	pair := func(v V, w W) dataflow.Pair[V, W] { return dataflow.Pair[V, W]{First: v, Second: w} }
	return newKeyedSingleton[K, dataflow.Pair[V, W], L, B](operators.Join(n, engine.Made(engine.KeyedNodeOf(b), op.Name), op, pair))
}

// LookupKeyedSingleton looks up each *value* of a as a key of b. It returns every key
// of a with its value and the value that b holds under that value, if any. Both must be
// complete, that is, inside one slice.
func LookupKeyedSingleton[K, V comparable, W any, L dataflow.Location, B bounds.Complete](
	a dataflow.KeyedSingleton[K, V, L, B], b dataflow.KeyedSingleton[V, W, L, B],
) dataflow.KeyedSingleton[K, dataflow.Pair[V, dataflow.Maybe[W]], L, B] {
	n, op := engine.Read(engine.KeyedNodeOf(a), "keyedsingleton.LookupKeyedSingleton")
	return newKeyedSingleton[K, dataflow.Pair[V, dataflow.Maybe[W]], L, B](operators.Lookup(n, engine.Made(engine.KeyedNodeOf(b), op.Name), op, maybe[V, W]))
}

// LookupKeyedStream looks up each *value* of a as a key of stream. For each key of a it
// returns one pair for each value that stream holds under a's value, in the order of
// stream, and a single pair without a match if there is none. Both must be complete,
// that is, inside one slice.
func LookupKeyedStream[K, V comparable, W any, L dataflow.Location, B bounds.Complete, O dataflow.Order, R dataflow.Retries](
	a dataflow.KeyedSingleton[K, V, L, B], stream dataflow.KeyedStream[V, W, L, bounds.Bounded, O, R],
) dataflow.KeyedStream[K, dataflow.Pair[V, dataflow.Maybe[W]], L, bounds.Bounded, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(a), "keyedsingleton.LookupKeyedStream")
	found := operators.KLookup(n, engine.Made(engine.KeyedNodeOf(stream), op.Name), op, maybe[V, W])
	return newKeyedStream[K, dataflow.Pair[V, dataflow.Maybe[W]], L, bounds.Bounded, O, R](found)
}

func maybe[V, W any](v V, w operators.Found[W]) dataflow.Pair[V, dataflow.Maybe[W]] {
	return dataflow.Pair[V, dataflow.Maybe[W]]{First: v, Second: dataflow.Maybe[W]{Value: w.Value, OK: w.OK}}
}

// CrossSingleton returns each value of ks together with the value of x, under its
// key. Either both are in one slice, or x is a constant.
func CrossSingleton[K comparable, V, X any, L dataflow.Location, B bounds.Mapped[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], x dataflow.Singleton[X, L, bounds.Bounded],
) dataflow.KeyedSingleton[K, dataflow.Pair[V, X], L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.CrossSingleton")
	pair := func(v V, x X) dataflow.Pair[V, X] { return dataflow.Pair[V, X]{First: v, Second: x} }
	return newKeyedSingleton[K, dataflow.Pair[V, X], L, Out](operators.KCross(n, engine.Made(engine.ValueNodeOf(x), op.Name), op, pair))
}
