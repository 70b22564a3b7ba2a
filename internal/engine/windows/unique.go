package windows

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// Unique returns each event of a key once, when it first comes. Events before the mark are forgotten, because a repeat has the
// same time and is therefore late.
func Unique[K, E comparable](in *engine.KeyedNode[K, E], op *engine.Op, at func(*E) int64) *engine.KeyedNode[K, E] {
	marks := follow(op, &in.Head)
	h := engine.Derived(op, in)
	out := engine.NewKeyedNode[K, E](h)
	m := engine.Remember(op, &h)
	seen := state.NewTable(m, state.Plain[Row[K, E]], state.Nothing)
	ends := newAgenda[Row[K, E]](m)
	hash, positive := engine.Hasher[Row[K, E]](), keyed.PositiveOf[E]()
	var c engine.Columns[K, E]
	var b engine.Batch[K, E]
	op.Holds(&c)
	op.Scratch(&b)
	in.To(func(batch *engine.Batch[K, E]) {
		op.Loc.At = op.Index
		m := marks.Now()
		for i, k := range batch.K {
			t := at(&batch.V[i])
			if t < m || t == future {
				late(t, m)
			}
			x := Row[K, E]{k, batch.V[i]}
			if positive != nil {
				x.Event = positive(x.Event)
			}
			h := hash.Hash(x)
			if _, added := seen.Put(x, h); added {
				ends.add(t, x, h)
				engine.AppendEntry(&c, false, k, x.Event, 0)
			}
		}
		engine.PushEntries(out, c, &b)
		engine.ClearEntries(&c)
	})
	marks.Follow(func(now int64) {
		ends.before(now, func(x Row[K, E], h uint64, _ int64) { seen.Delete(x, h) })
	})
	return out
}
