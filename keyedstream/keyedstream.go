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
	"github.com/millrace/millrace/internal/seal"
)

var key seal.Key

// Input returns a port and the stream of what is sent to it, under the key it is
// sent with. The name appears in errors, traces and graphs.
func Input[K comparable, V any, L dataflow.Location](
	at L, name string,
) (*dataflow.KeyedInputPort[K, V], dataflow.KeyedStream[K, V, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) {
	site := dataflow.Site(key, at, "keyedstream.Input")
	in, n := engine.NewKInlet[K, V](site, engine.NewOp(site, "keyedstream.Input "+name, ""), false)
	return dataflow.NewKeyedInputPort(key, in),
		dataflow.SealKeyedStream[K, V, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce](key, n)
}

// Output returns a port from which the entries of ks are read: those of one key in
// order. Every output must be read, or its location stops.
func Output[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], name string,
) *dataflow.OutputPort[dataflow.Entry[K, V]] {
	n := ks.Unseal(key)
	op := engine.NewOp(n.Site(), "keyedstream.Output "+name, "")
	return dataflow.NewOutputPort(key, engine.NewOutlet(engine.Zip(n, op, entry[K, V]), op))
}

// Map returns f of each value, under its key.
func Map[K comparable, V, U any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(V) U,
) dataflow.KeyedStream[K, U, L, B, O, R] {
	n := ks.Unseal(key)
	return dataflow.SealKeyedStream[K, U, L, B, O, R](key, engine.KMap(n, engine.NewOp(n.Site(), "keyedstream.Map", ""), f))
}

// MapWithKey returns f of each key and value, under the key.
func MapWithKey[K comparable, V, U any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(K, V) U,
) dataflow.KeyedStream[K, U, L, B, O, R] {
	n := ks.Unseal(key)
	return dataflow.SealKeyedStream[K, U, L, B, O, R](key, engine.KMapWithKey(n, engine.NewOp(n.Site(), "keyedstream.MapWithKey", ""), f))
}

// Filter returns the values for which keep is true.
func Filter[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], keep func(V) bool,
) dataflow.KeyedStream[K, V, L, B, O, R] {
	n := ks.Unseal(key)
	op := engine.NewOp(n.Site(), "keyedstream.Filter", "")
	return dataflow.SealKeyedStream[K, V, L, B, O, R](key, engine.KFilterMap(n, op, func(_ K, v V) (V, bool) { return v, keep(v) }))
}

// FilterMap returns what f returned together with true, under the value's key.
func FilterMap[K comparable, V, U any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(V) (U, bool),
) dataflow.KeyedStream[K, U, L, B, O, R] {
	n := ks.Unseal(key)
	op := engine.NewOp(n.Site(), "keyedstream.FilterMap", "")
	return dataflow.SealKeyedStream[K, U, L, B, O, R](key, engine.KFilterMap(n, op, func(_ K, v V) (U, bool) { return f(v) }))
}

// FilterWithKey returns the values for which keep is true of key and value.
func FilterWithKey[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], keep func(K, V) bool,
) dataflow.KeyedStream[K, V, L, B, O, R] {
	n := ks.Unseal(key)
	op := engine.NewOp(n.Site(), "keyedstream.FilterWithKey", "")
	return dataflow.SealKeyedStream[K, V, L, B, O, R](key, engine.KFilterMap(n, op, func(k K, v V) (V, bool) { return v, keep(k, v) }))
}

// FilterMapWithKey is [FilterMap] for a function that also sees the key.
func FilterMapWithKey[K comparable, V, U any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(K, V) (U, bool),
) dataflow.KeyedStream[K, U, L, B, O, R] {
	n := ks.Unseal(key)
	op := engine.NewOp(n.Site(), "keyedstream.FilterMapWithKey", "")
	return dataflow.SealKeyedStream[K, U, L, B, O, R](key, engine.KFilterMap(n, op, f))
}

// Inspect calls f with each value and returns ks. The call is made whether or not
// anything reads the result.
func Inspect[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(V),
) dataflow.KeyedStream[K, V, L, B, O, R] {
	n := ks.Unseal(key)
	op := engine.NewOp(n.Site(), "keyedstream.Inspect", "")
	return dataflow.SealKeyedStream[K, V, L, B, O, R](key, engine.KInspect(n, op, func(_ K, v V) { f(v) }))
}

// InspectWithKey is [Inspect] for a function that also sees the key.
func InspectWithKey[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(K, V),
) dataflow.KeyedStream[K, V, L, B, O, R] {
	n := ks.Unseal(key)
	op := engine.NewOp(n.Site(), "keyedstream.InspectWithKey", "")
	return dataflow.SealKeyedStream[K, V, L, B, O, R](key, engine.KInspect(n, op, f))
}

// Merge returns the values of both streams under their keys, in no particular order.
func Merge[K comparable, V any, L dataflow.Location, B bounds.Stream, O1, O2 dataflow.Order, R dataflow.Retries](
	s dataflow.KeyedStream[K, V, L, B, O1, R], t dataflow.KeyedStream[K, V, L, B, O2, R],
) dataflow.KeyedStream[K, V, L, B, dataflow.NoOrder, R] {
	a, b := s.Unseal(key), t.Unseal(key)
	return dataflow.SealKeyedStream[K, V, L, B, dataflow.NoOrder, R](key, engine.KMerge(engine.NewOp(a.Site(), "keyedstream.Merge", ""), a, b))
}

// AssumeOrder fixes, for each key, the order in which its values happen to come.
//
// # Nondeterminism
//
// The order is the runtime's choice and may differ between runs; why says that it
// cannot be seen in the result, or may be.
func AssumeOrder[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], why dataflow.NonDet,
) dataflow.KeyedStream[K, V, L, B, dataflow.TotalOrder, R] {
	n := ks.Unseal(key)
	op := engine.Reasoned(n.Site(), "keyedstream.AssumeOrder", string(why))
	return dataflow.SealKeyedStream[K, V, L, B, dataflow.TotalOrder, R](key, engine.KObserve(n, op))
}

// AssumeOnce takes each value of ks for one that was not repeated.
//
// # Nondeterminism
//
// Whether a value comes again is the sender's and the network's choice; why says that
// a repeat does no harm.
func AssumeOnce[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], why dataflow.NonDet,
) dataflow.KeyedStream[K, V, L, B, O, dataflow.ExactlyOnce] {
	n := ks.Unseal(key)
	op := engine.Reasoned(n.Site(), "keyedstream.AssumeOnce", string(why))
	return dataflow.SealKeyedStream[K, V, L, B, O, dataflow.ExactlyOnce](key, engine.KPass(n, op))
}

// AssumeRepeats forgets that the values of ks are not repeated. It costs nothing and
// serves to merge ks with a stream that may repeat.
func AssumeRepeats[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.KeyedStream[K, V, L, B, O, dataflow.AtLeastOnce] {
	return dataflow.SealKeyedStream[K, V, L, B, O, dataflow.AtLeastOnce](key, ks.Unseal(key))
}

// WeakenOrder forgets the order of the values of each key. It costs nothing and serves
// to chain ks with a stream without order.
func WeakenOrder[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.KeyedStream[K, V, L, B, dataflow.NoOrder, R] {
	return dataflow.SealKeyedStream[K, V, L, B, dataflow.NoOrder, R](key, ks.Unseal(key))
}

// Entries returns the keys and values as elements, in no particular order.
func Entries[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.Stream[dataflow.Entry[K, V], L, B, dataflow.NoOrder, R] {
	n := ks.Unseal(key)
	op := engine.NewOp(n.Site(), "keyedstream.Entries", "")
	return dataflow.SealStream[dataflow.Entry[K, V], L, B, dataflow.NoOrder, R](key, engine.Zip(n, op, entry[K, V]))
}

// Values returns the values as elements, in no particular order across keys; those of
// one key keep theirs. It costs nothing.
func Values[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.Stream[V, L, B, dataflow.NoOrder, R] {
	n := ks.Unseal(key)
	op := engine.NewOp(n.Site(), "keyedstream.Values", "")
	return dataflow.SealStream[V, L, B, dataflow.NoOrder, R](key, engine.Values(n, op))
}

func entry[K comparable, V any](k K, v V) dataflow.Entry[K, V] {
	return dataflow.Entry[K, V]{Key: k, Value: v}
}
