package windows

import (
	"github.com/millrace/millrace/internal/engine"
)

// Sort returns the events of in in the order of their times. Events of one time are in the order of tie, if that is not nil, and
// then in order of arrival. An event is released when the mark has passed its time.
func Sort[E any](in *engine.Node[E], op *engine.Op, at func(*E) int64, tie func(a, b *E) int) *engine.Node[E] {
	marks := follow(op, &in.Head)
	h := engine.Derived(op, in)
	h.Mark = own(op, marks)
	out := engine.NewNode[E](h)
	q := newQueue[E](engine.Remember(op, &h))
	q.tie = tie
	var due []E
	op.Holds(&due)
	in.To(func(batch []E) {
		op.Loc.At = op.Index
		m := marks.Now()
		for i := range batch {
			t := at(&batch[i])
			if t < m || t == future {
				late(t, m)
			}
			q.add(t, batch[i])
		}
	})
	marks.Follow(func(now int64) {
		op.Loc.At = op.Index
		for len(*q.all) > 0 && q.next() < now {
			due = append(due, q.take().What)
		}
		engine.PushBlocks(out, due)
		clear(due)
		due = due[:0]
		h.Mark.Advance(now)
	})
	return out
}

// A Row is an event of a key that waits for a mark. It is exported so that it can be saved.
type Row[K comparable, E any] struct {
	Key   K
	Event E
}

// Trailing returns each event with an aggregate of the events of its key in the period of length size that ends with it, in the
// order of their times. extend adds an event to an aggregate, and shrink removes one.
func Trailing[K comparable, E, A, U any](
	in *engine.KeyedNode[K, E], op *engine.Op, at func(*E) int64, size int64, init func() A, extend, shrink func(*A, *E), result func(*E, A) U,
) *engine.KeyedNode[K, U] {
	marks := follow(op, &in.Head)
	h := engine.Derived(op, in)
	h.Mark = own(op, marks)
	out := engine.NewKeyedNode[K, U](h)
	m := engine.Remember(op, &h)
	q := newQueue[Row[K, E]](m)
	tails := newTails[K, E, A](m)
	hash := engine.Hasher[K]()
	var cur K
	var c engine.Columns[K, U]
	var b engine.Batch[K, U]
	op.Scratch(&cur, &b)
	op.Holds(&c)
	op.Key = func() any { return cur }
	waits(in, op, at, marks, q)
	marks.Follow(func(now int64) {
		op.Loc.At = op.Index
		for len(*q.all) > 0 && q.next() < now {
			x := q.take()
			k := x.What.Key
			cur = k
			kh := hash.Hash(k)
			t, added := tails.table.Put(k, kh)
			if added {
				tails.ends.add(add(x.At, size), k, kh)
			}
			for t.Old < len(t.Events) && add(at(&t.Events[t.Old]), size) <= x.At {
				shrink(&t.Acc, &t.Events[t.Old])
				t.Old++
			}
			if t.drop(); len(t.Events) == 0 { // drops rounding errors of a floating-point sum
				t.Acc = init()
			}
			t.Events = append(t.Events, x.What.Event)
			extend(&t.Acc, &x.What.Event)
			engine.AppendEntry(&c, true, k, result(&x.What.Event, t.Acc), kh)
		}
		engine.PushEntries(out, c, &b)
		engine.ClearEntries(&c)
		tails.forget(now, size, at)
		h.Mark.Advance(now)
	})
	return out
}

// waits queues the events of in in q.
func waits[K comparable, E any](in *engine.KeyedNode[K, E], op *engine.Op, at func(*E) int64, marks interface{ Now() int64 }, q *queue[Row[K, E]]) {
	in.To(func(b *engine.Batch[K, E]) {
		op.Loc.At = op.Index
		m := marks.Now()
		for i, k := range b.K {
			t := at(&b.V[i])
			if t < m || t == future {
				late(t, m)
			}
			q.add(t, Row[K, E]{k, b.V[i]})
		}
	})
}
