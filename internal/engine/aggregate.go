package engine

import "github.com/millrace/millrace/internal/cow"

// First returns the first value of each key.
func First[K comparable, V any](in *KNode[K, V], op *Op) *KNode[K, V] {
	out := NewKNode[K, V](derived(op, in))
	seen := newSet[K](remember(op, &out.Head))
	hash := hasher[K]()
	var hs []uint64
	var news []int32
	var c columns[K, V]
	var o Batch[K, V]
	op.scratch(&hs, &news, &c, &o)
	in.To(func(b *Batch[K, V]) {
		op.site.at = op.index // a key may turn out not to be hashable
		n := len(b.K)
		hs := b.hashes(hash, &hs)[:n]
		seen.Touch(hs)
		news = seen.PutNew(b.K, hs, news[:0])
		m := len(news)
		if m == 0 {
			return
		}
		c.k, c.v, c.h = resize(c.k, m), resize(c.v, m), resize(c.h, m)
		vs := b.V[:n]
		for j, i := range news {
			c.k[j], c.v[j], c.h[j] = b.K[i], vs[i], hs[i]
		}
		o = Batch[K, V]{K: c.k, V: c.v, H: c.h}
		out.push(&o)
	}).one = func(k K, v V, h uint64) {
		op.site.at = op.index
		if _, h, added := seen.PutOne(hash, k, h); added {
			out.one(k, v, h)
		}
	}
	return out
}

// An early is what FoldEarlyStop has of a key: the aggregate, until that is released.
type early[A any] struct {
	acc  A
	done bool
}

// FoldEarlyStop folds the values of each key until step returns true, and returns
// the aggregate then.
func FoldEarlyStop[K comparable, V, A any](in *KNode[K, V], op *Op, init func() A, step func(*A, V) bool) *KNode[K, A] {
	out := NewKNode[K, A](derived(op, in))
	table := newTable(remember(op, &out.Head), plain[K], earlyForm[A])
	hash := hasher[K]()
	var hs []uint64
	var c columns[K, A]
	var o Batch[K, A]
	op.scratch(&hs, &c, &o)
	consumer, cur := track(op, in, func(b *Batch[K, V]) {
		n := len(b.K)
		hs := b.hashes(hash, &hs)[:n]
		table.Touch(hs)
		c.k, c.v, c.h = resize(c.k, n), resize(c.v, n), resize(c.h, n)
		vs, m := b.V[:n], 0
		for i, k := range b.K {
			s, added := table.Put(k, hs[i])
			if s.done {
				continue
			}
			op.at = i
			if added {
				s.acc = init()
			}
			if !step(&s.acc, vs[i]) {
				continue
			}
			c.k[m], c.v[m], c.h[m] = k, s.acc, hs[i]
			m++
			*s = early[A]{done: true}
		}
		if m > 0 {
			o = Batch[K, A]{K: c.k[:m], V: c.v[:m], H: c.h[:m]}
			out.push(&o)
		}
	})
	consumer.one = func(k K, v V, h uint64) {
		cur.enter(k)
		s, h, added := table.PutOne(hash, k, h)
		if s.done {
			return
		}
		if added {
			s.acc = init()
		}
		if !step(&s.acc, v) {
			return
		}
		acc := s.acc
		var none A
		s.acc, s.done = none, true
		out.one(k, acc, h)
	}
	return out
}

// totals is the state of a KFold, which is also its content.
type totals[K comparable, A any] struct {
	kept[K, A]
	changes changes
	out     columns[K, A]
	batch   Batch[K, A]
}

// changes are the entries of a table that a batch changed, in order, each once.
type changes struct {
	list []uint32
	set  []uint64 // the same as a bit set
}

// add adds entry i and reports whether it was not there.
func (c *changes) add(i uint32) bool {
	w, bit := int(i>>6), uint64(1)<<(i&63)
	for w >= len(c.set) {
		c.set = append(c.set, 0)
	}
	if c.set[w]&bit != 0 {
		return false
	}
	c.set[w] |= bit
	c.list = append(c.list, i)
	return true
}

// has reports whether entry i is there.
func (c *changes) has(i uint32) bool {
	w := int(i >> 6)
	return w < len(c.set) && c.set[w]>>(i&63)&1 != 0
}

// clear removes all entries. It costs what they are and not what the table is.
func (c *changes) clear() {
	for _, i := range c.list {
		c.set[i>>6] = 0
	}
	c.list = c.list[:0]
}

// KFold returns the running aggregate of each key: revised after each batch at the
// top level, once at the end inside a region.
func KFold[K comparable, V, A any](in *KNode[K, V], op *Op, init func() A, step func(*A, V)) *KNode[K, A] {
	out := NewKNode[K, A](derived(op, in))
	t := &totals[K, A]{kept: kept[K, A]{table: newTable(remember(op, &out.Head), plain[K], plain[A])}}
	op.holds(&t.changes.list)
	op.scratch(&t.changes.set, &t.out, &t.batch, &t.room)
	streaming := out.region == nil
	if streaming {
		out.live, out.revises = t, true
	}
	hash := hasher[K]()
	var hs []uint64
	op.scratch(&hs)
	c, cur := track(op, in, func(b *Batch[K, V]) {
		n := len(b.K)
		hs := b.hashes(hash, &hs)[:n]
		t.table.Touch(hs)
		vs := b.V[:n]
		emits := streaming && len(out.outs) > 0
		for i, k := range b.K {
			j, acc, added := t.table.PutIndex(k, hs[i])
			op.at = i
			if added {
				*acc = init()
			}
			step(acc, vs[i])
			if emits && t.changes.add(j) {
				t.out.h = append(t.out.h, hs[i])
			}
		}
		if emits {
			t.emit(out)
		}
		t.changed()
	})
	c.one = func(k K, v V, h uint64) {
		cur.enter(k)
		acc, h, added := t.table.PutOne(hash, k, h)
		if added {
			*acc = init()
		}
		step(acc, v)
		if streaming {
			out.one(k, *acc, h)
		}
		t.changed()
	}
	if !streaming {
		out.region.atStep(func() { t.Each(out.push) })
	}
	return out
}

// emit pushes what this batch changed, each key once.
func (t *totals[K, A]) emit(out *KNode[K, A]) {
	n := len(t.changes.list)
	t.out.k, t.out.v = resize(t.out.k, n), resize(t.out.v, n)
	for i, j := range t.changes.list {
		k, acc, _ := t.table.At(j)
		t.out.k[i], t.out.v[i] = k, *acc
	}
	t.changes.clear()
	t.batch = Batch[K, A]{K: t.out.k, V: t.out.v, H: t.out.h}
	t.out.h = t.out.h[:0]
	out.push(&t.batch)
}

// Scan calls step with the state of each value's key, the value, and a function that
// emits under that key.
func Scan[K comparable, V, S, U any](in *KNode[K, V], op *Op, init func() S, step func(*S, V, func(U))) *KNode[K, U] {
	out := NewKNode[K, U](derived(op, in))
	table := newTable(remember(op, &out.Head), plain[K], plain[S])
	hash := hasher[K]()
	var hs []uint64
	var c columns[K, U]
	var o Batch[K, U]
	var key K
	var h uint64
	op.holds(&c)
	op.scratch(&hs, &o, &key, &h)
	emit := func(u U) { c.k, c.v, c.h = append(c.k, key), append(c.v, u), append(c.h, h) }
	consumer, cur := track(op, in, func(b *Batch[K, V]) {
		hs := b.hashes(hash, &hs)[:len(b.K)]
		table.Touch(hs)
		for i, k := range b.K {
			s, added := table.Put(k, hs[i])
			op.at = i
			if added {
				*s = init()
			}
			key, h = k, hs[i]
			step(s, b.V[i], emit)
		}
		if len(c.k) > 0 {
			c.pushBlocks(out, &o)
			clear(c.k)
			clear(c.v)
			c = columns[K, U]{c.k[:0], c.v[:0], c.h[:0]}
		}
	})
	var es emissions[K, U]
	op.scratch(&es)
	add := es.add
	consumer.one = func(k K, v V, h uint64) {
		cur.enter(k)
		s, h, added := table.PutOne(hash, k, h)
		if added {
			*s = init()
		}
		step(s, v, add)
		if es.any {
			es.pushTo(out, k, h)
		}
	}
	return out
}

// KeyCount returns the number of keys.
func KeyCount[K comparable, V any](in *KNode[K, V], op *Op) *Cell[int] {
	h := derived(op, in)
	out := NewCell[int](h)
	m := remember(op, &h)
	var n *int
	var add func(*Batch[K, V])
	var one func(K, V, uint64)
	if in.revises {
		present := newSet[K](m)
		n = newVar(m, 0)
		hash := hasher[K]()
		var hs []uint64
		op.scratch(&hs)
		add = func(b *Batch[K, V]) {
			hs := b.hashes(hash, &hs)
			for i, k := range b.K {
				if b.Gone != nil && b.Gone[i] {
					present.Delete(k, hs[i])
				} else {
					present.Put(k, hs[i])
				}
			}
			*n = present.Len()
		}
		one = func(k K, _ V, h uint64) {
			if _, _, added := present.PutOne(hash, k, h); added {
				*n++
			}
		}
	} else {
		n = newVar(m, 0)
		add = func(b *Batch[K, V]) { *n += len(b.K) }
		one = func(K, V, uint64) { *n++ }
	}
	if h.region == nil {
		h.site.starts.atStep(func() { out.Set(0) })
		in.To(func(b *Batch[K, V]) {
			before := *n
			if add(b); *n != before {
				out.Set(*n)
			}
		}).one = func(k K, v V, h uint64) {
			before := *n
			if one(k, v, h); *n != before {
				out.Set(*n)
			}
		}
		return out
	}
	in.To(add).one = one
	h.region.atStep(func() { out.Set(*n) })
	return out
}

// IntoSingleton returns the whole content as a view that may leave the location.
func IntoSingleton[K comparable, V, W any](in *KNode[K, V], op *Op, wrap func(cow.View[K, V]) W) *Cell[W] {
	h := derived(op, in)
	m, out := newView(remember(op, &h), h, wrap)
	apply := func(b *Batch[K, V]) (changed bool) {
		for i, k := range b.K {
			if b.Gone != nil && b.Gone[i] {
				changed = m.Delete(k) || changed
			} else {
				m.Set(k, b.V[i])
				changed = true
			}
		}
		return changed
	}
	if h.region == nil {
		h.site.starts.atStep(func() { out.Set(wrap(m.View())) })
		in.To(func(b *Batch[K, V]) {
			if apply(b) {
				out.Set(wrap(m.View()))
			}
		}).one = func(k K, v V, _ uint64) {
			m.Set(k, v)
			out.Set(wrap(m.View()))
		}
		return out
	}
	in.To(func(b *Batch[K, V]) { apply(b) }).one = func(k K, v V, _ uint64) { m.Set(k, v) }
	h.region.atStep(func() { out.Set(wrap(m.View())) })
	return out
}
