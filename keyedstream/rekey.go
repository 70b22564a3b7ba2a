package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// FlatMap returns all elements that f emits for each value, under its key and in order.
// The function emit must not be called after f has returned.
func FlatMap[K comparable, V, U any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(v V, emit func(U)),
) dataflow.KeyedStream[K, U, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.FlatMap", f)
	return newKeyedStream[K, U, L, B, O, R](operators.KFlatMap(n, op, f))
}

// Rekey returns each value under the key that f returns for it. Values of several keys
// may come under one key, and have no order between them, so the result has no order.
// Where the new key determines the old one, [PrefixKey] keeps the order.
func Rekey[K, K2 comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(K, V) K2,
) dataflow.KeyedStream[K2, V, L, B, dataflow.NoOrder, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.Rekey", f)
	return newKeyedStream[K2, V, L, B, dataflow.NoOrder, R](operators.KRekey(n, op, f))
}

// PrefixKey returns each value under a finer key: the result of f, paired with the old
// key. The values of a new key all come from one old key, so they keep their order.
func PrefixKey[K, K2 comparable, V any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(K, V) K2,
) dataflow.KeyedStream[dataflow.Pair[K2, K], V, L, B, O, R] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.PrefixKey", f)
	finer := func(k K, v V) dataflow.Pair[K2, K] { return dataflow.Pair[K2, K]{First: f(k, v), Second: k} }
	return newKeyedStream[dataflow.Pair[K2, K], V, L, B, O, R](operators.KRekey(n, op, finer))
}
