// Package keyedstream defines functions on a [dataflow.KeyedStream], many values for
// each key.
//
// The order of a keyed stream holds within a key. What a function returns depends on
// the stream's bound, order and retries; the tables in package bounds are the key to
// the signatures here.
package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// Output returns a port for reading the entries of ks. Entries of one key come in order.
// Every output must be read, or its location stops.
func Output[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], name string,
) *dataflow.OutputPort[dataflow.Entry[K, V]] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Output "+name)
	if _, repeats := any(*new(R)).(dataflow.AtLeastOnce); repeats {
		engine.SeesRepeats(&n.Head)
	}
	return newOutputPort(port.NewOutput(operators.Zip(n, op, entry[K, V]), op))
}

// Map returns f of each value, under its key.
func Map[K comparable, V, U any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(V) U,
) dataflow.KeyedStream[K, U, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Map", f)
	return newKeyedStream[K, U, L, B, O, R](operators.KMap(n, op, f))
}

// MapWithKey returns f of each key and value, under the key.
func MapWithKey[K comparable, V, U any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(K, V) U,
) dataflow.KeyedStream[K, U, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.MapWithKey", f)
	return newKeyedStream[K, U, L, B, O, R](operators.KMapWithKey(n, op, f))
}

// Filter returns the values for which keep is true.
func Filter[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], keep func(V) bool,
) dataflow.KeyedStream[K, V, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Filter", keep)
	return newKeyedStream[K, V, L, B, O, R](operators.KFilterMap(n, op, func(_ K, v V) (V, bool) { return v, keep(v) }))
}

// FilterMap returns the result of f for each value for which f returns true, under the
// value's key.
func FilterMap[K comparable, V, U any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(V) (U, bool),
) dataflow.KeyedStream[K, U, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.FilterMap", f)
	return newKeyedStream[K, U, L, B, O, R](operators.KFilterMap(n, op, func(_ K, v V) (U, bool) { return f(v) }))
}

// FilterWithKey returns the values for which keep is true of key and value.
func FilterWithKey[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], keep func(K, V) bool,
) dataflow.KeyedStream[K, V, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.FilterWithKey", keep)
	return newKeyedStream[K, V, L, B, O, R](operators.KFilterMap(n, op, func(k K, v V) (V, bool) { return v, keep(k, v) }))
}

// FilterMapWithKey is [FilterMap] for a function that also sees the key.
func FilterMapWithKey[K comparable, V, U any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(K, V) (U, bool),
) dataflow.KeyedStream[K, U, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.FilterMapWithKey", f)
	return newKeyedStream[K, U, L, B, O, R](operators.KFilterMap(n, op, f))
}

// Inspect calls f with each value and returns ks. It calls f whether or not anything
// reads the result.
func Inspect[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(V),
) dataflow.KeyedStream[K, V, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Inspect", f)
	return newKeyedStream[K, V, L, B, O, R](operators.KInspect(n, op, func(_ K, v V) { f(v) }))
}

// InspectWithKey is [Inspect] for a function that also sees the key.
func InspectWithKey[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(K, V),
) dataflow.KeyedStream[K, V, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.InspectWithKey", f)
	return newKeyedStream[K, V, L, B, O, R](operators.KInspect(n, op, f))
}

// Merge returns the values of both streams under their keys, in no particular order.
func Merge[K comparable, V any, L dataflow.Location, B bounds.Stream, O1, O2 dataflow.Order, R dataflow.Retries](
	s dataflow.KeyedStream[K, V, L, B, O1, R], t dataflow.KeyedStream[K, V, L, B, O2, R],
) dataflow.KeyedStream[K, V, L, B, dataflow.NoOrder, R] {
	a, op := engine.Read(engine.KeyedNodeOf(s), "keyedstream.Merge")
	b := engine.Made(engine.KeyedNodeOf(t), op.Name)
	return newKeyedStream[K, V, L, B, dataflow.NoOrder, R](operators.KMerge(op, a, b))
}

// AssumeOrder fixes, for each key, the order in which its values happen to come.
//
// # Nondeterminism
//
// The runtime chooses the order, which may differ between runs; why says that the result
// does not show it, or may show it.
func AssumeOrder[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], why dataflow.NonDet,
) dataflow.KeyedStream[K, V, L, B, dataflow.TotalOrder, R] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedstream.AssumeOrder", why)
	return newKeyedStream[K, V, L, B, dataflow.TotalOrder, R](operators.KObserve(n, op))
}

// AssumeOnce treats each value of ks as one that is not repeated.
//
// # Nondeterminism
//
// The sender and the network decide whether a value comes again; why says that a repeat
// does no harm.
func AssumeOnce[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], why dataflow.NonDet,
) dataflow.KeyedStream[K, V, L, B, O, dataflow.ExactlyOnce] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedstream.AssumeOnce", why)
	engine.SeesRepeats(&n.Head)
	return newKeyedStream[K, V, L, B, O, dataflow.ExactlyOnce](engine.KPass(n, op))
}

// AssumeRepeats drops the guarantee that the values of ks are not repeated. It costs
// nothing. Use it to merge ks with a stream that may repeat.
func AssumeRepeats[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.KeyedStream[K, V, L, B, O, dataflow.AtLeastOnce] {
	return newKeyedStream[K, V, L, B, O, dataflow.AtLeastOnce](engine.Made(engine.KeyedNodeOf(ks), "keyedstream.AssumeRepeats"))
}

// WeakenOrder drops the order of the values of each key. It costs nothing. Use it to
// chain ks with a stream without order.
func WeakenOrder[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.KeyedStream[K, V, L, B, dataflow.NoOrder, R] {
	const name = "keyedstream.WeakenOrder"
	return newKeyedStream[K, V, L, B, dataflow.NoOrder, R](port.KLoose(engine.Made(engine.KeyedNodeOf(ks), name), name, false))
}

// Entries returns the keys and values as elements, in no particular order.
func Entries[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.Stream[dataflow.Entry[K, V], L, B, dataflow.NoOrder, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Entries")
	return newStream[dataflow.Entry[K, V], L, B, dataflow.NoOrder, R](operators.Zip(port.KLoose(n, op.Name, !unordered[O]()), op, entry[K, V]))
}

// Values returns the values as elements. Values of one key keep their order; there is no
// order across keys. It costs nothing.
func Values[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.Stream[V, L, B, dataflow.NoOrder, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Values")
	return newStream[V, L, B, dataflow.NoOrder, R](operators.Values(port.KLoose(n, op.Name, !unordered[O]()), op))
}

func entry[K comparable, V any](k K, v V) dataflow.Entry[K, V] {
	return dataflow.Entry[K, V]{Key: k, Value: v}
}
