package keyedstream

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// TryMap returns f of each value for which f succeeds, and a [dataflow.Failure] for each
// other value, both under the value's key and in order. It calls f once for each value. A
// failure does not end the flow; a panic of f does.
func TryMap[K comparable, V, U any, L dataflow.Location, B bounds.Stream, O dataflow.Order, R dataflow.Retries](
	ks dataflow.KeyedStream[K, V, L, B, O, R], f func(V) (U, error),
) (values dataflow.KeyedStream[K, U, L, B, O, R], failures dataflow.KeyedStream[K, dataflow.Failure[V], L, B, O, R]) {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedstream.TryMap", f)
	us, fs := operators.KFork(n, op, func(v V) (U, dataflow.Failure[V], bool) {
		u, err := f(v)
		return u, dataflow.Failure[V]{Value: v, Err: err}, err == nil
	})
	return newKeyedStream[K, U, L, B, O, R](us), newKeyedStream[K, dataflow.Failure[V], L, B, O, R](fs)
}
