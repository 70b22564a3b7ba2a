package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// Keys returns each key, once, when its first value comes.
//
// A key is remembered for as long as the flow runs, in 22 to 32 bytes plus the key
// itself.
func Keys[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.Stream[K, L, B, dataflow.NoOrder, dataflow.ExactlyOnce] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Keys")
	return newStream[K, L, B, dataflow.NoOrder, dataflow.ExactlyOnce](port.Loose(operators.Keys(operators.First(n, op), op), op.Name, true))
}

// Unique returns each value of a key once, when it first comes. The same value under
// another key is a different one. Values repeated by a retry come out once. A negative
// zero comes out as the zero that it is equal to.
//
// All pairs of key and value are remembered for as long as the flow runs or, inside a
// slice, until its run ends. Values that are not equal to themselves, such as NaN, are
// never remembered.
func Unique[K, V comparable, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.KeyedStream[K, V, L, B, O, dataflow.ExactlyOnce] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Unique")
	return newKeyedStream[K, V, L, B, O, dataflow.ExactlyOnce](operators.KUnique(n, op))
}

// Limit returns the first n values of each key, and nothing if n is 0. A negative n
// panics.
//
// The count of a key is kept for as long as the flow runs: a key that has reached n does
// not start again.
func Limit[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Ordered, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], n int,
) dataflow.KeyedStream[K, V, L, B, O, R] {
	in, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Limit")
	if n < 0 {
		engine.Misuse(op.Name, "n is %d", n)
	}
	limited := operators.KStep(in, op, func(had *int, v V) (V, bool) {
		if *had == n {
			return v, false
		}
		*had++
		return v, true
	})
	return newKeyedStream[K, V, L, B, O, R](limited)
}

// Enumerate returns each value together with the number of earlier values of its key: 0,
// 1, 2 and so on under each key.
//
// The count of a key is kept for as long as the flow runs.
func Enumerate[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Ordered, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, V, L, B, O, R],
) dataflow.KeyedStream[K, dataflow.Pair[int, V], L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Enumerate")
	numbered := operators.KStep(n, op, func(had *int, v V) (dataflow.Pair[int, V], bool) {
		*had++
		return pair(*had-1, v), true
	})
	return newKeyedStream[K, dataflow.Pair[int, V], L, B, O, R](numbered)
}

// Partition returns the values for which pred is true, and the others. It calls pred
// once for each value.
func Partition[K comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], pred func(V) bool,
) (yes, no dataflow.KeyedStream[K, V, L, B, O, R]) {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Partition", pred)
	y, x := operators.KFork(n, op, func(v V) (V, V, bool) { return v, v, pred(v) })
	return newKeyedStream[K, V, L, B, O, R](y), newKeyedStream[K, V, L, B, O, R](x)
}
