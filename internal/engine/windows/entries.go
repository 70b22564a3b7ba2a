package windows

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/mark"
)

// Entries returns the entries of in as events, under the keys that event gives them. The result has the mark of in.
func Entries[W comparable, A any, K comparable, E any](in *engine.KeyedNode[W, A], op *engine.Op, event func(W, A) (K, E)) *engine.KeyedNode[K, E] {
	follow(op, &in.Head)
	out := engine.NewKeyedNode[K, E](engine.Derived(op, in))
	var c engine.Columns[K, E]
	var o engine.Batch[K, E]
	op.Scratch(&c, &o)
	in.To(func(b *engine.Batch[W, A]) {
		c.K, c.V = engine.Resize(c.K, len(b.K)), engine.Resize(c.V, len(b.K))
		for i, w := range b.K {
			c.K[i], c.V[i] = event(w, b.V[i])
		}
		o = engine.Batch[K, E]{K: c.K, V: c.V}
		out.Push(&o)
	}).One = func(w W, a A, _ uint64) {
		k, e := event(w, a)
		out.One(k, e, 0)
	}
	return out
}

// Value returns the mark of a stream of events as a value, which exists from the start.
func Value[T ~int64](op *engine.Op, in *engine.Head) *engine.ValueNode[T] {
	m := follow(op, in)
	h := engine.Derived(op, in)
	h.Mark = nil
	out := engine.NewValueNode[T](h)
	h.Loc.Starts.AtStep(func() { out.Set(T(past)) })
	m.Follow(func(now int64) {
		op.Loc.At = op.Index
		if T(now) > out.Value && now != mark.Silent {
			out.Set(T(now))
		}
	})
	return out
}
