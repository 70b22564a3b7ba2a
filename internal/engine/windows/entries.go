package windows

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/mark"
)

// Entries returns the entries of in as events, under the keys that event gives them and in the order of their times. Entries of
// one time are in the order of tie. An event is released when the mark has passed its time.
//
// Entries of several keys become events of one key. They have no order between them, so the one in which they came is not used,
// unless they come from a window that closed, in the order of their times. Such events need not wait, and the operator has no state.
func Entries[W comparable, A any, K comparable, E any](
	in *engine.KeyedNode[W, A], op *engine.Op, at func(*W) int64, tie func(a, b *W) int, event func(W, A) (K, E),
) *engine.KeyedNode[K, E] {
	marks := follow(op, &in.Head)
	h := engine.Derived(op, in)
	if marks.Closes {
		return closedEntries(in, op, h, event)
	}
	h.Mark = own(op, marks)
	out := engine.NewKeyedNode[K, E](h)
	q := newQueue[Row[W, A]](engine.Remember(op, &h))
	q.tie = func(a, b *Row[W, A]) int { return tie(&a.Key, &b.Key) }
	var c engine.Columns[K, E]
	var o engine.Batch[K, E]
	op.Holds(&c)
	op.Scratch(&o)
	in.To(func(b *engine.Batch[W, A]) {
		op.Loc.At = op.Index
		m := marks.Now()
		for i := range b.K {
			t := at(&b.K[i])
			if t < m || t == future {
				late(t, m)
			}
			q.add(t, Row[W, A]{b.K[i], b.V[i]})
		}
	})
	marks.Follow(func(now int64) {
		op.Loc.At = op.Index
		for len(*q.all) > 0 && q.next() < now {
			x := q.take().What
			k, e := event(x.Key, x.Event)
			engine.AppendEntry(&c, false, k, e, 0)
		}
		engine.PushEntries(out, c, &o)
		engine.ClearEntries(&c)
		h.Mark.Advance(now)
	})
	return out
}

// closedEntries is Entries of what comes in the order of its times.
func closedEntries[W comparable, A any, K comparable, E any](in *engine.KeyedNode[W, A], op *engine.Op, h engine.Head, event func(W, A) (K, E)) *engine.KeyedNode[K, E] {
	out := engine.NewKeyedNode[K, E](h)
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
