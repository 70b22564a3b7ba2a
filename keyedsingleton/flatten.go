package keyedsingleton

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// Entries returns each entry as an element when it appears, in no particular order. The
// stream is complete when the keys are.
//
// Values must be fixed, because an element cannot be taken back when its entry changes.
// For a collection that changes, take a slice.SnapshotEntries first.
func Entries[K comparable, V any, L dataflow.Location, B bounds.FixedValues[Keys], Keys bounds.Stream](
	ks dataflow.KeyedSingleton[K, V, L, B],
) dataflow.Stream[dataflow.Entry[K, V], L, Keys, dataflow.NoOrder, dataflow.ExactlyOnce] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.Entries")
	entry := func(k K, v V) dataflow.Entry[K, V] { return dataflow.Entry[K, V]{Key: k, Value: v} }
	return newStream[dataflow.Entry[K, V], L, Keys, dataflow.NoOrder, dataflow.ExactlyOnce](port.Loose(operators.Zip(operators.Lives(n, op), op, entry), op.Name, true))
}

// Values returns the value of each entry as an element when it appears. Equal values of
// two keys are two elements. See [Entries].
func Values[K comparable, V any, L dataflow.Location, B bounds.FixedValues[Keys], Keys bounds.Stream](
	ks dataflow.KeyedSingleton[K, V, L, B],
) dataflow.Stream[V, L, Keys, dataflow.NoOrder, dataflow.ExactlyOnce] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.Values")
	return newStream[V, L, Keys, dataflow.NoOrder, dataflow.ExactlyOnce](port.Loose(operators.Values(operators.Lives(n, op), op), op.Name, true))
}

// Keys returns the key of each entry as an element when it appears. See [Entries].
func Keys[K comparable, V any, L dataflow.Location, B bounds.FixedValues[Bound], Bound bounds.Stream](
	ks dataflow.KeyedSingleton[K, V, L, B],
) dataflow.Stream[K, L, Bound, dataflow.NoOrder, dataflow.ExactlyOnce] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.Keys")
	return newStream[K, L, Bound, dataflow.NoOrder, dataflow.ExactlyOnce](port.Loose(operators.Keys(operators.Lives(n, op), op), op.Name, true))
}

// IntoKeyedStream returns the value of each entry as the only value of its key. It
// costs nothing.
func IntoKeyedStream[K comparable, V any, L dataflow.Location, B bounds.FixedValues[Keys], Keys bounds.Stream](
	ks dataflow.KeyedSingleton[K, V, L, B],
) dataflow.KeyedStream[K, V, L, Keys, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.IntoKeyedStream")
	return newKeyedStream[K, V, L, Keys, dataflow.TotalOrder, dataflow.ExactlyOnce](operators.KMerge(op, operators.Lives(n, op)))
}

// KeyCount returns the number of keys, which starts at 0 and only grows where keys
// are never removed.
func KeyCount[K comparable, V any, L dataflow.Location, B bounds.Counted[Out], Out bounds.Singleton](
	ks dataflow.KeyedSingleton[K, V, L, B],
) dataflow.Singleton[int, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.KeyCount")
	return newSingleton[int, L, Out](operators.KeyCount(n, op))
}

// IntoSingleton returns the whole content as one value, which starts empty. Each
// version is a copy-on-write view that may be kept and passed to other goroutines:
// taking it costs O(1), a change after it O(log n).
func IntoSingleton[K comparable, V any, L dataflow.Location, B bounds.Keyed[Keys], Keys bounds.Stream](
	ks dataflow.KeyedSingleton[K, V, L, B],
) dataflow.Singleton[dataflow.View[K, V], L, Keys] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.IntoSingleton")
	return newSingleton[dataflow.View[K, V], L, Keys](operators.IntoSingleton(n, op, newView[K, V]))
}
