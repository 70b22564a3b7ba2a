package operators

import (
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
)

// Observe makes op an observer of the order in which the elements of n come.
func Observe[T any](n *engine.Node[T], op *engine.Op) *engine.Node[T] {
	op.SeesOrder()
	if n.Loc.Graph.Settings.Watch == nil {
		return engine.Pass(n, op)
	}
	out := engine.NewNode[T](engine.Derived(op, n))
	n.To(func(batch []T) {
		w := n.Loc.Graph.Settings.Watch
		for _, x := range batch {
			if n.Region != nil {
				n.Region.Show(op, nil, x)
			} else {
				w.Observed(n.Loc.Name, engine.FirstObserver+uint64(op.Index), digest.Of(x))
			}
		}
		out.Push(batch)
	})
	return out
}

// KObserve makes op an observer of the order in which the values of each key come.
func KObserve[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op) *engine.KeyedNode[K, V] {
	op.SeesOrder()
	if n.Loc.Graph.Settings.Watch == nil {
		return engine.KPass(n, op)
	}
	out := engine.NewKeyedNode[K, V](engine.Derived(op, n))
	out.Fresh, out.Lives, out.Revises, out.Forgets, out.Index = n.Fresh, n.Lives, n.Revises, n.Forgets, n.Index
	n.To(func(b *engine.Batch[K, V]) {
		w := n.Loc.Graph.Settings.Watch
		for i, k := range b.K {
			if n.Region != nil {
				n.Region.Show(op, k, b.V[i])
			} else {
				w.Observed(n.Loc.Name, engine.FirstObserver+uint64(op.Index)<<32^digest.Of(k), digest.Of(b.V[i]))
			}
		}
		out.Push(b)
	})
	return out
}
