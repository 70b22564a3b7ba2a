package keyedsingleton

import (
	"cmp"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
)

// Get returns the value in ks of the key that k holds, and nothing if ks does not hold
// that key. Both must be complete, that is, inside one slice. The cost is one table
// probe.
func Get[K comparable, V any, L dataflow.Location, B bounds.Complete](
	ks dataflow.KeyedSingleton[K, V, L, B], k dataflow.Singleton[K, L, bounds.Bounded],
) dataflow.Optional[V, L, bounds.Bounded] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.Get")
	return newOptional[V, L, bounds.Bounded](operators.KGet(n, engine.Made(engine.ValueNodeOf(k), op.Name), op))
}

// MaxKey returns the entry with the largest key. It is absent only before the first
// entry, since no key goes away.
func MaxKey[K cmp.Ordered, V any, L dataflow.Location, B bounds.Permanent[Keys], Keys bounds.Stream](
	ks dataflow.KeyedSingleton[K, V, L, B],
) dataflow.Optional[dataflow.Entry[K, V], L, Keys] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.MaxKey")
	entry := func(k K, v V) dataflow.Entry[K, V] { return dataflow.Entry[K, V]{Key: k, Value: v} }
	return newOptional[dataflow.Entry[K, V], L, Keys](operators.KMaxKey(n, op, cmp.Less[K], entry))
}

// WithoutKeys returns the entries whose key is not in keys. A key may be in keys more
// than once.
//
// Either both are in one slice, or keys is a constant: an entry that was let through
// could not be taken back when its key came later.
func WithoutKeys[K comparable, V any, L dataflow.Location, B bounds.KeyedSingleton, O dataflow.Order, R dataflow.Retries, Keys bounds.Complete](
	ks dataflow.KeyedSingleton[K, V, L, B], keys dataflow.Stream[K, L, Keys, O, R],
) dataflow.KeyedSingleton[K, V, L, B] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.WithoutKeys")
	return newKeyedSingleton[K, V, L, B](operators.KWithout(n, engine.Made(engine.NodeOf(keys), op.Name), op))
}
