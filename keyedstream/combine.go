package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// MergeOrdered returns the values of both streams under their keys. Within a key, the
// values of one stream keep their order. How they interleave with those of the other
// stream is fixed as they arrive.
//
// # Nondeterminism
//
// The runtime chooses which stream's value comes first, for each key separately.
func MergeOrdered[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Ordered, R dataflow.Retries](
	s, t dataflow.KeyedStream[K, V, L, B, O, R], why dataflow.NonDet,
) dataflow.KeyedStream[K, V, L, B, dataflow.TotalOrder, R] {
	a, op := engine.ReadReasoned(engine.KeyedNodeOf(s), "keyedstream.MergeOrdered", why)
	b := engine.Made(engine.KeyedNodeOf(t), op.Name)
	merged := operators.KObserve(operators.KMerge(op, a, b), op)
	return newKeyedStream[K, V, L, B, dataflow.TotalOrder, R](merged)
}

// Chain returns, under each key, the values of first and then those of then. So first
// must be complete: either both are in one slice, or first is a constant. To combine two
// streams that never end, use [Merge].
//
// Inside a slice, the values of then are held back until first is over.
func Chain[K comparable, V any, L dataflow.Location, First bounds.Complete, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	first dataflow.KeyedStream[K, V, L, First, O, R], then dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.KeyedStream[K, V, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(then), "keyedstream.Chain")
	return newKeyedStream[K, V, L, B, O, R](operators.KChain(op, engine.Made(engine.KeyedNodeOf(first), op.Name), n))
}

// Join returns each value of s together with each value of t under the same key: each
// pair once, in whatever order the values come. A key that only one of them holds gives
// nothing. Equal values count separately.
//
// All values of both are kept, for as long as the flow runs or, inside a slice, until its
// run ends. A value costs one probe and its pairs. If one side has one value for each key
// and is complete, use keyedsingleton.JoinKeyedStream: it keeps only that side, and
// preserves the order.
func Join[K comparable, V, W any, L dataflow.Location, B bounds.Stream, O1, O2 dataflow.Order, R dataflow.Retries](
	s dataflow.KeyedStream[K, V, L, B, O1, R], t dataflow.KeyedStream[K, W, L, B, O2, R],
) dataflow.KeyedStream[K, dataflow.Pair[V, W], L, B, dataflow.NoOrder, R] {
	n, op := engine.Read(engine.KeyedNodeOf(s), "keyedstream.Join")
	joined := operators.KJoin(n, engine.Made(engine.KeyedNodeOf(t), op.Name), op, pair[V, W])
	return newKeyedStream[K, dataflow.Pair[V, W], L, B, dataflow.NoOrder, R](port.KLoose(joined, op.Name, false))
}

// AntiJoin returns the values of ks whose key is not in keys, in order. A key may be in
// keys more than once.
//
// Either both are in one slice, or keys is a constant: a value that was let through could
// not be taken back when its key came later.
func AntiJoin[K comparable, V any, L dataflow.Location, B bounds.Stream, O, KeysO dataflow.Order, R, KeysR dataflow.Retries, Keys bounds.Complete](
	ks dataflow.KeyedStream[K, V, L, B, O, R], keys dataflow.Stream[K, L, Keys, KeysO, KeysR],
) dataflow.KeyedStream[K, V, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.AntiJoin")
	return newKeyedStream[K, V, L, B, O, R](operators.KWithout(n, engine.Made(engine.NodeOf(keys), op.Name), op))
}

// CrossSingleton returns each value together with the value of x, under its key.
// Either both are in one slice, or x is a constant.
func CrossSingleton[K comparable, V, X any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], x dataflow.Singleton[X, L, bounds.Bounded],
) dataflow.KeyedStream[K, dataflow.Pair[V, X], L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.CrossSingleton")
	return newKeyedStream[K, dataflow.Pair[V, X], L, B, O, R](operators.KCross(n, engine.Made(engine.ValueNodeOf(x), op.Name), op, pair[V, X]))
}

func pair[A, B any](a A, b B) dataflow.Pair[A, B] { return dataflow.Pair[A, B]{First: a, Second: b} }
