package keyedstream

import (
	"cmp"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/claims"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Get returns the values of the key that k holds, in their order, and nothing if ks has
// no such key. Either both are in one slice, or k is a constant. The cost is one
// comparison for each value of ks.
func Get[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], k dataflow.Singleton[K, L, bounds.Bounded],
) dataflow.Stream[V, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Get")
	return newStream[V, L, B, O, R](operators.KPick(n, engine.Made(engine.ValueNodeOf(k), op.Name), op))
}

// Sort returns the values of each key from the smallest to the largest, in O(n log n).
// The stream must be complete, and may be in any order. In a slice, Sort sorts each batch
// separately. A negative zero comes before zero.
func Sort[K comparable, V cmp.Ordered, L dataflow.Location, B bounds.Complete, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.KeyedStream[K, V, L, B, dataflow.TotalOrder, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Sort")
	return newKeyedStream[K, V, L, B, dataflow.TotalOrder, R](operators.KSort(n, op, operators.Order[V]()))
}

// SortFunc is [Sort] with an order given by compare, as in package slices. The proof says
// why compare treats no two different values of a key as equal: such values would stay in
// order of arrival.
func SortFunc[K comparable, V any, L dataflow.Location, B bounds.Complete, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], compare func(a, b V) int, why dataflow.Proof,
) dataflow.KeyedStream[K, V, L, B, dataflow.TotalOrder, R] {
	n, op := engine.ReadProved(engine.KeyedNodeOf(ks), "keyedstream.SortFunc", why, compare)
	engine.Permuted(&n.Head)
	return newKeyedStream[K, V, L, B, dataflow.TotalOrder, R](operators.KSort(n, op, claims.Distinct(op, compare)))
}

// LookupKeyedSingleton looks up each *value* of ks as a key of b. It returns the value
// with the value that b holds under it, if any, in the order of ks. Both must be
// complete, that is, inside one slice. The cost is one table probe for each value.
func LookupKeyedSingleton[K, V comparable, W any, L dataflow.Location, B bounds.Complete, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], b dataflow.KeyedSingleton[V, W, L, bounds.Bounded],
) dataflow.KeyedStream[K, dataflow.Pair[V, dataflow.Maybe[W]], L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.LookupKeyedSingleton")
	found := operators.Lookup(n, engine.Made(engine.KeyedNodeOf(b), op.Name), op, maybe[V, W])
	return newKeyedStream[K, dataflow.Pair[V, dataflow.Maybe[W]], L, B, O, R](found)
}

// LookupKeyedStream looks up each *value* of ks as a key of stream. It returns one pair
// for each value that stream holds under it, in the order of stream, and a single pair
// without a match if there is none. Both must be complete, that is, inside one slice, and
// stream is kept until its run ends.
func LookupKeyedStream[K, V comparable, W any, L dataflow.Location, B bounds.Complete, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], stream dataflow.KeyedStream[V, W, L, bounds.Bounded, O, R],
) dataflow.KeyedStream[K, dataflow.Pair[V, dataflow.Maybe[W]], L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.LookupKeyedStream")
	found := operators.KLookup(n, engine.Made(engine.KeyedNodeOf(stream), op.Name), op, maybe[V, W])
	return newKeyedStream[K, dataflow.Pair[V, dataflow.Maybe[W]], L, B, O, R](found)
}

func maybe[V, W any](v V, w operators.Found[W]) dataflow.Pair[V, dataflow.Maybe[W]] {
	return pair(v, dataflow.Maybe[W]{Value: w.Value, OK: w.OK})
}
