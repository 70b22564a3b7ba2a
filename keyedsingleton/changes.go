package keyedsingleton

import (
	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Changes returns each change of an entry of ks, under its key: the old value and the new one.
// An index, a cache or a page outside the flow can follow ks with it.
//
// It looks at ks at moments of the runtime's choosing, as a slice does, after the work of a
// step is done. Several changes of an entry between two such moments are one change, from the
// first value to the last; these may be equal. The changes of a key are in order, and the first
// one has no old value, so a reader that applies all of them has the content of ks.
//
// It keeps the content of ks, and the content at the moment before. The cost is two table
// probes for each change.
//
// # Nondeterminism
//
// Which changes are combined depends on when they are looked at; why says that this does no
// harm.
func Changes[K comparable, V any, L dataflow.Location, B bounds.Changing](
	ks dataflow.KeyedSingleton[K, V, L, B], why dataflow.NonDet,
) dataflow.KeyedStream[K, dataflow.Change[V], L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedsingleton.Changes", why)
	changed := operators.Changes(n, op, func(old, now operators.Found[V]) dataflow.Change[V] {
		return dataflow.Change[V]{Old: dataflow.Maybe[V](old), New: dataflow.Maybe[V](now)}
	})
	return newKeyedStream[K, dataflow.Change[V], L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce](changed)
}
