package operators

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// Lives returns the entries of in as they appear, without those that are forgotten: each life of a key is one element. It costs
// nothing if in forgets nothing.
func Lives[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op) *engine.KeyedNode[K, V] {
	if !in.Forgets {
		return in
	}
	out := engine.NewKeyedNode[K, V](engine.Same(op.Name, in))
	var c engine.Columns[K, V]
	var o engine.Batch[K, V]
	op.Scratch(&c, &o)
	consumer := in.To(func(b *engine.Batch[K, V]) {
		if b.Gone == nil {
			o = *b
			out.Push(&o)
			return
		}
		c.K, c.V, c.H = c.K[:0], c.V[:0], c.H[:0]
		for i, k := range b.K {
			if b.Gone[i] {
				continue
			}
			c.K, c.V = append(c.K, k), append(c.V, b.V[i])
			if b.H != nil {
				c.H = append(c.H, b.H[i])
			}
		}
		if len(c.K) > 0 {
			o = engine.Batch[K, V]{K: c.K, V: c.V}
			if b.H != nil {
				o.H = c.H
			}
			out.Push(&o)
		}
	})
	consumer.One = func(k K, v V, h uint64) { out.One(k, v, h) }
	consumer.Gone = func() bool { return false }
	return out
}

// lifeBatch lets lives into a slice. If a key has two lives, the second waits for the next run, so that a run has one value for
// each key.
type lifeBatch[K comparable, V any] struct {
	r     *engine.Region
	lives *engine.Lives[K]
	fresh engine.Columns[K, V] // in order of appearance
	over  []bool               // which of these have ended meanwhile
	in    *keyed.Table[K, int] // index in fresh of the newest life of each key
	gone  engine.Columns[K, struct{}]
}

// batchLives is [BatchKeyed] for entries that can be forgotten.
func batchLives[K comparable, V any](r *engine.Region, n *engine.KeyedNode[K, V], op *engine.Op) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](r.Inside(op.Name, n, false))
	out.Fresh, out.Lives = true, new(engine.Lives[K])
	r.Reasons = append(r.Reasons, op)
	hash := engine.Hasher[K]()
	l := &lifeBatch[K, V]{r: r, lives: out.Lives, in: state.NewTable(engine.Remember(op, &out.Head), state.Plain[K], state.Plain[int])}
	var now engine.Columns[K, V]
	var b engine.Batch[K, V]
	var hs []uint64
	op.Holds(&l.fresh, &l.over, &l.gone, &now)
	op.Scratch(&b, &hs)
	consumer := n.To(func(b *engine.Batch[K, V]) {
		for i, h := range b.Hashes(hash, &hs) {
			if b.Gone != nil && b.Gone[i] {
				l.end(b.K[i], h)
			} else {
				l.begin(b.K[i], b.V[i], h)
			}
		}
	})
	consumer.One = func(k K, v V, h uint64) {
		if h == 0 {
			h = hash.Hash(k)
		}
		l.begin(k, v, h)
	}
	consumer.Gone = out.Lives.Watched
	r.AtStep(func() {
		now = l.next()
		engine.PushEntries(out, now, &b)
	})
	r.AtEnd(func() {
		if len(l.gone.K) > 0 {
			l.lives.Over(l.gone.K, l.gone.H)
			engine.ClearEntries(&l.gone)
		}
		now = engine.Columns[K, V]{}
	})
	return out
}

func (l *lifeBatch[K, V]) begin(k K, v V, h uint64) {
	l.r.News = true
	at, _ := l.in.Put(k, h)
	*at = len(l.fresh.K)
	engine.AppendEntry(&l.fresh, true, k, v, h)
	l.over = append(l.over, false)
}

// end ends the newest life of k: at once if a run has had it, otherwise after the run that has it.
func (l *lifeBatch[K, V]) end(k K, h uint64) {
	if at := l.in.Get(k, h); at != nil {
		l.over[*at] = true
		return
	}
	l.lives.Over([]K{k}, []uint64{h})
}

// next returns the lives of this run and keeps what waits for the next one.
func (l *lifeBatch[K, V]) next() (now engine.Columns[K, V]) {
	fresh, over := l.fresh, l.over
	l.fresh, l.over = engine.Columns[K, V]{}, nil
	l.in.Clear()
	has := l.in
	var later []int
	for i, k := range fresh.K {
		if _, added := has.Put(k, fresh.H[i]); !added {
			later = append(later, i)
			continue
		}
		engine.AppendEntry(&now, true, k, fresh.V[i], fresh.H[i])
		if over[i] {
			engine.AppendEntry(&l.gone, true, k, struct{}{}, fresh.H[i])
		}
	}
	l.in.Clear()
	for _, i := range later {
		l.begin(fresh.K[i], fresh.V[i], fresh.H[i])
		l.over[len(l.over)-1] = over[i]
	}
	if len(later) > 0 {
		l.r.Again()
	}
	return now
}

// EmitRetained lets the entries of n out of its slice, and forgets each when the life from which it was made is over.
func EmitRetained[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op) *engine.KeyedNode[K, V] {
	r := slice(op, &n.Head)
	out := engine.NewKeyedNode[K, V](r.Outside())
	out.Revises, out.Forgets = true, true
	hash := engine.Hasher[K]()
	present := state.NewSet[K](engine.Remember(op, &out.Head))
	var over lifeRows[K, V]
	var hs []uint64
	op.Holds(&over)
	op.Scratch(&hs)
	n.To(func(b *engine.Batch[K, V]) {
		for i, h := range b.Hashes(hash, &hs) {
			if n.Loc.Graph.Settings.Watch != nil {
				r.Show(op, b.K[i], b.V[i])
			}
			present.Put(b.K[i], h)
		}
		out.Push(b)
	}).One = func(k K, v V, h uint64) {
		if n.Loc.Graph.Settings.Watch != nil {
			r.Show(op, k, v)
		}
		_, h, _ = present.PutOne(hash, k, h)
		out.One(k, v, h)
	}
	n.Lives.Watch(func(ks []K, hs []uint64) {
		for i, k := range ks {
			if present.Delete(k, hs[i]) {
				forgetRow(&over, k, hs[i])
			}
		}
		pushRows(out, &over)
	})
	return out
}
