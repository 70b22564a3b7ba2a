package operators

import (
	"github.com/millrace/millrace/internal/cow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
)

// First returns the first value of each key.
func First[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](engine.Derived(op, in))
	seen := state.NewSet[K](engine.Remember(op, &out.Head))
	hash := engine.Hasher[K]()
	var hs []uint64
	var news []int32
	var c engine.Columns[K, V]
	var o engine.Batch[K, V]
	op.Scratch(&hs, &news, &c, &o)
	in.To(func(b *engine.Batch[K, V]) {
		n := len(b.K)
		hs := b.Hashes(hash, &hs)[:n]
		news = seen.PutNew(b.K, hs, news[:0])
		m := len(news)
		if m == 0 {
			return
		}
		c.K, c.V, c.H = engine.Resize(c.K, m), engine.Resize(c.V, m), engine.Resize(c.H, m)
		vs := b.V[:n]
		for j, i := range news {
			c.K[j], c.V[j], c.H[j] = b.K[i], vs[i], hs[i]
		}
		o = engine.Batch[K, V]{K: c.K, V: c.V, H: c.H}
		out.Push(&o)
	}).One = func(k K, v V, h uint64) {
		if _, h, added := seen.PutOne(hash, k, h); added {
			out.One(k, v, h)
		}
	}
	return out
}

// An early is what FoldEarlyStop holds for a key: the aggregate, until it is released.
type early[A any] struct {
	acc  A
	done bool
}

// FoldEarlyStop folds the values of each key until step returns true, and then returns the aggregate.
func FoldEarlyStop[K comparable, V, A any](in *engine.KeyedNode[K, V], op *engine.Op, init func() A, step func(*A, V) bool) *engine.KeyedNode[K, A] {
	out := engine.NewKeyedNode[K, A](engine.Derived(op, in))
	table := state.NewTable(engine.Remember(op, &out.Head), state.Plain[K], earlyCodec[A])
	hash := engine.Hasher[K]()
	var hs []uint64
	var c engine.Columns[K, A]
	var o engine.Batch[K, A]
	op.Scratch(&hs, &c, &o)
	consumer, cur := track(op, in, func(b *engine.Batch[K, V]) {
		n := len(b.K)
		hs := b.Hashes(hash, &hs)[:n]
		table.Touch(hs)
		c.K, c.V, c.H = engine.Resize(c.K, n), engine.Resize(c.V, n), engine.Resize(c.H, n)
		vs, m := b.V[:n], 0
		for i, k := range b.K {
			s, added := table.Put(k, hs[i])
			if s.done {
				continue
			}
			op.At = i
			if added {
				s.acc = init()
			}
			if !step(&s.acc, vs[i]) {
				continue
			}
			c.K[m], c.V[m], c.H[m] = k, s.acc, hs[i]
			m++
			*s = early[A]{done: true}
		}
		if m > 0 {
			o = engine.Batch[K, A]{K: c.K[:m], V: c.V[:m], H: c.H[:m]}
			out.Push(&o)
		}
	})
	consumer.One = func(k K, v V, h uint64) {
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
		out.One(k, acc, h)
	}
	return out
}

// totals is the state of a KFold, which is also its content.
type totals[K comparable, A any] struct {
	index[K, A]
	changes changes
	out     engine.Columns[K, A]
	batch   engine.Batch[K, A]
}

// changes are the entries of a table that a batch changed, in order, each listed once.
type changes struct {
	list []uint32
	set  []uint64 // the same as a bit set
}

// add adds entry i and reports whether it was missing.
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

// has reports whether entry i was added.
func (c *changes) has(i uint32) bool {
	w := int(i >> 6)
	return w < len(c.set) && c.set[w]>>(i&63)&1 != 0
}

// clear removes all entries. Its cost is linear in the changes, not in the table.
func (c *changes) clear() {
	for _, i := range c.list {
		c.set[i>>6] = 0
	}
	c.list = c.list[:0]
}

// KFold returns the running aggregate of each key: revised after each batch at the top level, once at the end inside a region.
func KFold[K comparable, V, A any](in *engine.KeyedNode[K, V], op *engine.Op, init func() A, step func(*A, V)) *engine.KeyedNode[K, A] {
	out := engine.NewKeyedNode[K, A](engine.Derived(op, in))
	t := &totals[K, A]{index: index[K, A]{table: state.NewTable(engine.Remember(op, &out.Head), state.Plain[K], state.Plain[A])}}
	op.Holds(&t.changes.list)
	op.Scratch(&t.changes.set, &t.out, &t.batch, &t.buffer)
	streaming := out.Region == nil
	if streaming {
		out.Index, out.Revises = t, true
	}
	hash := engine.Hasher[K]()
	var hs []uint64
	op.Scratch(&hs)
	c, cur := track(op, in, func(b *engine.Batch[K, V]) {
		n := len(b.K)
		hs := b.Hashes(hash, &hs)[:n]
		t.table.Touch(hs)
		vs := b.V[:n]
		emits := streaming && len(out.Outs) > 0
		for i, k := range b.K {
			j, acc, added := t.table.PutIndex(k, hs[i])
			op.At = i
			if added {
				*acc = init()
			}
			step(acc, vs[i])
			if emits && t.changes.add(j) {
				t.out.H = append(t.out.H, hs[i])
			}
		}
		if emits {
			t.emit(out)
		}
		t.Changed()
	})
	c.One = func(k K, v V, h uint64) {
		cur.enter(k)
		acc, h, added := t.table.PutOne(hash, k, h)
		if added {
			*acc = init()
		}
		step(acc, v)
		if streaming {
			out.One(k, *acc, h)
		}
		t.Changed()
	}
	if !streaming {
		out.Region.AtStep(func() { t.Each(out.Push) })
	}
	return out
}

// emit pushes what this batch changed, each key once.
func (t *totals[K, A]) emit(out *engine.KeyedNode[K, A]) {
	n := len(t.changes.list)
	t.out.K, t.out.V = engine.Resize(t.out.K, n), engine.Resize(t.out.V, n)
	for i, j := range t.changes.list {
		k, acc, _ := t.table.At(j)
		t.out.K[i], t.out.V[i] = k, *acc
	}
	t.changes.clear()
	t.batch = engine.Batch[K, A]{K: t.out.K, V: t.out.V, H: t.out.H}
	t.out.H = t.out.H[:0]
	out.Push(&t.batch)
}

// Scan calls step with the state of each value's key, the value, and a function that
// emits under that key.
func Scan[K comparable, V, S, U any](in *engine.KeyedNode[K, V], op *engine.Op, init func() S, step func(*S, V, func(U))) *engine.KeyedNode[K, U] {
	out := engine.NewKeyedNode[K, U](engine.Derived(op, in))
	table := state.NewTable(engine.Remember(op, &out.Head), state.Plain[K], state.Plain[S])
	hash := engine.Hasher[K]()
	var hs []uint64
	var c engine.Columns[K, U]
	var o engine.Batch[K, U]
	var key K
	var h uint64
	op.Holds(&c)
	op.Scratch(&hs, &o, &key, &h)
	emit := func(u U) { c.K, c.V, c.H = append(c.K, key), append(c.V, u), append(c.H, h) }
	consumer, cur := track(op, in, func(b *engine.Batch[K, V]) {
		hs := b.Hashes(hash, &hs)[:len(b.K)]
		table.Touch(hs)
		for i, k := range b.K {
			s, added := table.Put(k, hs[i])
			op.At = i
			if added {
				*s = init()
			}
			key, h = k, hs[i]
			step(s, b.V[i], emit)
		}
		if len(c.K) > 0 {
			engine.PushEntries(out, c, &o)
			clear(c.K)
			clear(c.V)
			c = engine.Columns[K, U]{K: c.K[:0], V: c.V[:0], H: c.H[:0]}
		}
	})
	var es emissions[K, U]
	op.Scratch(&es)
	add := es.add
	consumer.One = func(k K, v V, h uint64) {
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
func KeyCount[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op) *engine.ValueNode[int] {
	h := engine.Derived(op, in)
	out := engine.NewValueNode[int](h)
	m := engine.Remember(op, &h)
	var n *int
	var add func(*engine.Batch[K, V])
	var one func(K, V, uint64)
	if in.Revises {
		present := state.NewSet[K](m)
		n = state.NewVar(m, 0)
		hash := engine.Hasher[K]()
		var hs []uint64
		op.Scratch(&hs)
		add = func(b *engine.Batch[K, V]) {
			hs := b.Hashes(hash, &hs)
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
		n = state.NewVar(m, 0)
		add = func(b *engine.Batch[K, V]) { *n += len(b.K) }
		one = func(K, V, uint64) { *n++ }
	}
	if h.Region == nil {
		h.Loc.Starts.AtStep(func() { out.Set(0) })
		in.To(func(b *engine.Batch[K, V]) {
			before := *n
			if add(b); *n != before {
				out.Set(*n)
			}
		}).One = func(k K, v V, h uint64) {
			before := *n
			if one(k, v, h); *n != before {
				out.Set(*n)
			}
		}
		return out
	}
	in.To(add).One = one
	h.Region.AtStep(func() { out.Set(*n) })
	return out
}

// IntoSingleton returns the whole content as a view that may leave the location.
func IntoSingleton[K comparable, V, W any](in *engine.KeyedNode[K, V], op *engine.Op, wrap func(cow.View[K, V]) W) *engine.ValueNode[W] {
	h := engine.Derived(op, in)
	m, out := state.NewView(engine.Remember(op, &h), h, wrap)
	apply := func(b *engine.Batch[K, V]) (changed bool) {
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
	if h.Region == nil {
		h.Loc.Starts.AtStep(func() { out.Set(wrap(m.View())) })
		in.To(func(b *engine.Batch[K, V]) {
			if apply(b) {
				out.Set(wrap(m.View()))
			}
		}).One = func(k K, v V, _ uint64) {
			m.Set(k, v)
			out.Set(wrap(m.View()))
		}
		return out
	}
	in.To(func(b *engine.Batch[K, V]) { apply(b) }).One = func(k K, v V, _ uint64) { m.Set(k, v) }
	h.Region.AtStep(func() { out.Set(wrap(m.View())) })
	return out
}

// earlyCodec returns the codec of what FoldEarlyStop holds for a key.
func earlyCodec[A any](op *engine.Op) codec.Of[early[A]] {
	acc := state.Plain[A](op)
	return codec.Of[early[A]]{
		Kind: "early " + acc.Kind,
		Save: func(dst []byte, c codec.Codec, x *early[A]) ([]byte, error) {
			if x.done {
				return append(dst, 1), nil
			}
			return acc.Save(append(dst, 0), c, &x.acc)
		},
		Load: func(d *codec.Decoder, c codec.Codec, x *early[A]) {
			if x.done = d.Byte() == 1; !x.done {
				acc.Load(d, c, &x.acc)
			}
		},
	}
}
