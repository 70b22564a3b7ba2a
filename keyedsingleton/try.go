package keyedsingleton

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// TryMap returns f of each value for which f succeeds, and a [dataflow.Failure] for each
// other value, both under the value's key. Where values change, an entry moves between
// the two results with its value, so both are Unbounded, as for [Filter].
//
// The function must be pure, as for [Map]. A failure does not end the flow; a panic of f
// does.
func TryMap[K comparable, V, U any, L dataflow.Location, B bounds.Filtered[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], f func(V) (U, error),
) (values dataflow.KeyedSingleton[K, U, L, Out], failures dataflow.KeyedSingleton[K, dataflow.Failure[V], L, Out]) {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.TryMap", f)
	us, fs := operators.KFork(n, op, func(v V) (U, dataflow.Failure[V], bool) {
		u, err := f(v)
		return u, dataflow.Failure[V]{Value: v, Err: err}, err == nil
	})
	return newKeyedSingleton[K, U, L, Out](us), newKeyedSingleton[K, dataflow.Failure[V], L, Out](fs)
}
