package operators

import (
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// IndexOf returns the whole content of n, which is kept from now on if it was not yet.
func IndexOf[K comparable, V any](n *engine.KeyedNode[K, V]) engine.Index[K, V] {
	if n.Index == nil {
		n.Index, n.Ready = newIndex(n), false
	}
	return n.Index
}

// An index is a keyed singleton kept in a table.
type index[K comparable, V any] struct {
	table   *keyed.Table[K, V]
	watches []func()
	buffer  *scanBuffer[K, V] // for Each
}

// A scanBuffer batches a full scan of an index.
type scanBuffer[K comparable, V any] struct {
	c engine.Columns[K, V]
	b engine.Batch[K, V]
}

// flush calls f with the content of the buffer and empties it.
func (r *scanBuffer[K, V]) flush(f func(*engine.Batch[K, V])) {
	r.b = engine.Batch[K, V]{K: r.c.K, V: r.c.V}
	f(&r.b)
	clear(r.c.K)
	clear(r.c.V)
	r.c.K, r.c.V = r.c.K[:0], r.c.V[:0]
}

// newIndex keeps the content of n in a table of its own.
func newIndex[K comparable, V any](n *engine.KeyedNode[K, V]) *index[K, V] {
	t := &index[K, V]{table: state.NewTable(engine.Remember(n.Loc.Making, &n.Head), state.Plain[K], state.Plain[V])}
	hash := engine.Hasher[K]()
	var hs []uint64
	n.Loc.Making.Scratch(&hs, &t.buffer)
	n.To(func(b *engine.Batch[K, V]) {
		hs := b.Hashes(hash, &hs)
		t.table.Touch(hs)
		changed := false
		for i, k := range b.K {
			if b.Gone != nil && b.Gone[i] {
				changed = t.table.Delete(k, hs[i]) || changed
				continue
			}
			v, _ := t.table.Put(k, hs[i])
			*v = b.V[i]
			changed = true
		}
		if changed {
			t.Changed()
		}
	}).One = func(k K, v V, h uint64) {
		p, _, _ := t.table.PutOne(hash, k, h)
		*p = v
		t.Changed()
	}
	return t
}

func (t *index[K, V]) Get(k K, h uint64) (v V, ok bool) {
	if p := t.table.Get(k, h); p != nil {
		return *p, true
	}
	return v, false
}

func (t *index[K, V]) Find(ks []K, hs []uint64, at []*V) (found int) {
	return keyed.Find(t.table, ks, hs, at)
}

func (t *index[K, V]) Each(f func(*engine.Batch[K, V])) {
	r := t.buffer
	t.buffer = nil // not to be used by another scan meanwhile
	if r == nil {
		r = new(scanBuffer[K, V])
	}
	size := min(engine.BlockSize[K](), engine.BlockSize[V]())
	for k, v := range keyed.All(t.table) {
		if r.c.K, r.c.V = append(r.c.K, k), append(r.c.V, *v); len(r.c.K) == size {
			r.flush(f)
		}
	}
	if len(r.c.K) > 0 {
		r.flush(f)
	}
	t.buffer = r
}

func (t *index[K, V]) Watch(f func()) { t.watches = append(t.watches, f) }

func (t *index[K, V]) Changed() {
	for _, f := range t.watches {
		f()
	}
}

// A view is the content of another keyed singleton seen through a function of each entry, which may drop the entry.
type view[K comparable, V, U any] struct {
	inner engine.Index[K, V]
	f     func(K, V) (U, bool)
	op    *engine.Op
	at    []*V // for Find
	us    []U  // what Find found
}

func newView[K comparable, V, U any](inner engine.Index[K, V], op *engine.Op, f func(K, V) (U, bool)) *view[K, V, U] {
	t := &view[K, V, U]{inner: inner, f: f, op: op}
	op.Scratch(&t.at, &t.us)
	return t
}

func (t *view[K, V, U]) Get(k K, h uint64) (u U, ok bool) {
	v, ok := t.inner.Get(k, h)
	if !ok {
		return u, false
	}
	t.op.Enter()
	return t.f(k, v)
}

func (t *view[K, V, U]) Find(ks []K, hs []uint64, at []*U) (found int) {
	t.at, t.us = engine.Resize(t.at, len(ks)), engine.Resize(t.us, len(ks))
	t.inner.Find(ks, hs, t.at)
	t.op.Enter()
	for i, v := range t.at {
		at[i] = nil
		if v == nil {
			continue
		}
		if u, ok := t.f(ks[i], *v); ok {
			t.us[i], at[i] = u, &t.us[i]
			found++
		}
	}
	clear(t.at)
	return found
}

func (t *view[K, V, U]) Each(f func(*engine.Batch[K, U])) {
	var c engine.Columns[K, U]
	t.inner.Each(func(b *engine.Batch[K, V]) {
		c.K, c.V = c.K[:0], c.V[:0]
		t.op.Enter()
		for i, k := range b.K {
			if u, ok := t.f(k, b.V[i]); ok {
				c.K, c.V = append(c.K, k), append(c.V, u)
			}
		}
		if len(c.K) > 0 {
			f(&engine.Batch[K, U]{K: c.K, V: c.V})
		}
	})
}

func (t *view[K, V, U]) Watch(f func()) { t.inner.Watch(f) }

// Changes returns what each cut of its own slice finds changed in n. change gets what a key had at the previous cut and what it
// has now, if anything.
func Changes[K comparable, V, C any](n *engine.KeyedNode[K, V], op *engine.Op, change func(old, now Found[V]) C) *engine.KeyedNode[K, C] {
	r := engine.NewSlice(n.Loc)
	r.Reasons = append(r.Reasons, op)
	inside := r.Inside(op.Name, n, false)
	out := engine.NewKeyedNode[K, C](r.Outside())
	content := IndexOf(n)
	shown := state.NewTable(engine.Remember(op, &out.Head), state.Plain[K], state.Plain[V])
	touched := state.NewSet[K](engine.Remember(op, &inside)) // since the last cut
	hash := engine.Hasher[K]()
	var ks engine.Columns[K, struct{}]
	var c engine.Columns[K, C]
	var o engine.Batch[K, C]
	var hs []uint64
	op.Holds(&ks, &c)
	op.Scratch(&o, &hs)
	touch := func(k K, h uint64) {
		r.News = true
		if _, added := touched.Put(k, h); added {
			engine.AppendEntry(&ks, true, k, struct{}{}, h)
		}
	}
	n.To(func(b *engine.Batch[K, V]) {
		for i, h := range b.Hashes(hash, &hs) {
			touch(b.K[i], h)
		}
	}).One = func(k K, _ V, h uint64) {
		if h == 0 {
			h = hash.Hash(k)
		}
		touch(k, h)
	}
	r.AtStep(func() {
		op.Loc.At = op.Index
		for i, k := range ks.K {
			if n.Loc.Simulated() { // a cut depends on what came since the previous one
				op.TouchKey(k, engine.Writes)
			}
			h := ks.H[i]
			var old, now Found[V]
			if p := shown.Get(k, h); p != nil {
				old = Found[V]{*p, true}
			}
			if now.Value, now.OK = content.Get(k, h); now.OK {
				p, _ := shown.Put(k, h)
				*p = now.Value
			} else {
				shown.Delete(k, h)
			}
			if old.OK || now.OK {
				if w := n.Loc.Graph.Settings.Watch; w != nil { // which keys changed in one cut cannot be observed
					w.Observed(n.Loc.Name, engine.FirstObserver+uint64(op.Index)<<32^digest.Of(k), digest.Of(now))
					w.Published(op, now)
				}
				c.K, c.V, c.H = append(c.K, k), append(c.V, change(old, now)), append(c.H, h)
			}
		}
		engine.ClearEntries(&ks)
		engine.PushEntries(out, c, &o)
		engine.ClearEntries(&c)
	})
	return out
}
