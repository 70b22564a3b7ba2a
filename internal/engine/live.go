package engine

import (
	"github.com/millrace/millrace/internal/keyed"
)

// A Live is the whole content of a keyed singleton as it stands, borrowed: it is
// valid only while the holder of the token does nothing but read it.
type Live[K comparable, V any] interface {
	Get(k K, h uint64) (V, bool)
	// Find is Get of many keys: at[i] becomes where the value of ks[i] is, or nil. It
	// returns how many have one. What at points to is good until the next Find.
	Find(ks []K, hs []uint64, at []*V) (found int)
	Each(f func(*Batch[K, V])) // in order of first appearance
	Watch(f func())            // call f after each batch that changed something
}

// Live returns the whole content of n, kept from now on if nobody kept it yet.
func (n *KNode[K, V]) Live() Live[K, V] {
	if n.live == nil {
		n.live, n.ready = keep(n), false
	}
	return n.live
}

// A kept is a keyed singleton kept in a table.
type kept[K comparable, V any] struct {
	table   *keyed.Table[K, V]
	watches []func()
	room    *room[K, V] // for Each
}

// A room is what a kept is copied through, for who asks for all of it.
type room[K comparable, V any] struct {
	c columns[K, V]
	b Batch[K, V]
}

// flush calls f with what is in the room and empties it.
func (r *room[K, V]) flush(f func(*Batch[K, V])) {
	r.b = Batch[K, V]{K: r.c.k, V: r.c.v}
	f(&r.b)
	clear(r.c.k)
	clear(r.c.v)
	r.c.k, r.c.v = r.c.k[:0], r.c.v[:0]
}

// keep keeps the content of n in a table of its own.
func keep[K comparable, V any](n *KNode[K, V]) *kept[K, V] {
	t := &kept[K, V]{table: newTable(remember(n.site.making, &n.Head), plain[K], plain[V])}
	hash := hasher[K]()
	var hs []uint64
	n.site.making.scratch(&hs, &t.room)
	n.To(func(b *Batch[K, V]) {
		hs := b.hashes(hash, &hs)
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
			t.changed()
		}
	}).one = func(k K, v V, h uint64) {
		p, _, _ := t.table.PutOne(hash, k, h)
		*p = v
		t.changed()
	}
	return t
}

func (t *kept[K, V]) Get(k K, h uint64) (v V, ok bool) {
	if p := t.table.Get(k, h); p != nil {
		return *p, true
	}
	return v, false
}

func (t *kept[K, V]) Find(ks []K, hs []uint64, at []*V) (found int) {
	return t.table.Find(ks, hs, at)
}

func (t *kept[K, V]) Each(f func(*Batch[K, V])) {
	r := t.room
	t.room = nil // nobody else may use it meanwhile
	if r == nil {
		r = new(room[K, V])
	}
	size := min(block[K](), block[V]())
	for k, v := range t.table.All() {
		if r.c.k, r.c.v = append(r.c.k, k), append(r.c.v, *v); len(r.c.k) == size {
			r.flush(f)
		}
	}
	if len(r.c.k) > 0 {
		r.flush(f)
	}
	t.room = r
}

func (t *kept[K, V]) Watch(f func()) { t.watches = append(t.watches, f) }

func (t *kept[K, V]) changed() {
	for _, f := range t.watches {
		f()
	}
}

// A through is the content of another keyed singleton seen through a function of
// each entry, which may drop it.
type through[K comparable, V, U any] struct {
	inner Live[K, V]
	f     func(K, V) (U, bool)
	op    *Op
	at    []*V // for Find
	us    []U  // what Find found
}

func newThrough[K comparable, V, U any](inner Live[K, V], op *Op, f func(K, V) (U, bool)) *through[K, V, U] {
	t := &through[K, V, U]{inner: inner, f: f, op: op}
	op.scratch(&t.at, &t.us)
	return t
}

func (t *through[K, V, U]) Get(k K, h uint64) (u U, ok bool) {
	v, ok := t.inner.Get(k, h)
	if !ok {
		return u, false
	}
	t.op.enter()
	return t.f(k, v)
}

func (t *through[K, V, U]) Find(ks []K, hs []uint64, at []*U) (found int) {
	t.at, t.us = resize(t.at, len(ks)), resize(t.us, len(ks))
	t.inner.Find(ks, hs, t.at)
	t.op.enter()
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

func (t *through[K, V, U]) Each(f func(*Batch[K, U])) {
	var c columns[K, U]
	t.inner.Each(func(b *Batch[K, V]) {
		c.k, c.v = c.k[:0], c.v[:0]
		t.op.enter()
		for i, k := range b.K {
			if u, ok := t.f(k, b.V[i]); ok {
				c.k, c.v = append(c.k, k), append(c.v, u)
			}
		}
		if len(c.k) > 0 {
			f(&Batch[K, U]{K: c.k, V: c.v})
		}
	})
}

func (t *through[K, V, U]) Watch(f func()) { t.inner.Watch(f) }

// hasher returns the hasher of K. All hashers of a type agree, so that a hash
// column can be passed on.
func hasher[K comparable]() *keyed.Hasher[K] { return keyed.HasherOf[K]() }
