package operators

import "github.com/millrace/millrace/internal/engine"

// A Pair is an entry in a plain stream.
type Pair[K comparable, V any] struct {
	Key   K
	Value V
}

// KeyBy returns the elements of in, each under its key. It does not copy the values.
func KeyBy[K comparable, V any](in *engine.Node[V], op *engine.Op, key func(V) K) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](engine.Derived(op, in))
	check := engine.MadeKeys[K](op)
	var ks []K
	var b engine.Batch[K, V]
	op.Scratch(&ks, &b)
	in.Consume(&engine.Consumer[V]{Push: func(batch []V) {
		op.Loc.At = op.Index
		ks = engine.Resize(ks, len(batch))
		o := ks[:len(batch)]
		for i, x := range batch {
			o[i] = key(x)
		}
		if check != nil {
			check(o)
		}
		b = engine.Batch[K, V]{K: o, V: batch}
		out.Push(&b)
	}, MakeOne: func() func(V) {
		at, index, next := &op.Loc.At, op.Index, out.One
		if check != nil {
			return func(x V) {
				*at = index
				next(engine.CheckMade(check, key(x)), x, 0)
			}
		}
		return func(x V) {
			*at = index
			next(key(x), x, 0)
		}
	}})
	return out
}

// KeyByRef is KeyBy for elements that are expensive to copy.
func KeyByRef[K comparable, V any](in *engine.Node[V], op *engine.Op, key func(*V) K) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](engine.Derived(op, in))
	check := engine.MadeKeys[K](op)
	var ks []K
	var b engine.Batch[K, V]
	var buf V
	op.Scratch(&ks, &b, &buf)
	in.Consume(&engine.Consumer[V]{Push: func(batch []V) {
		op.Loc.At = op.Index
		ks = engine.Resize(ks, len(batch))
		o := ks[:len(batch)]
		for i := range batch {
			o[i] = key(&batch[i])
		}
		if check != nil {
			check(o)
		}
		b = engine.Batch[K, V]{K: o, V: batch}
		out.Push(&b)
	}, One: func(x V) {
		op.Loc.At = op.Index
		buf = x
		k := key(&buf)
		if check != nil {
			k = engine.CheckMade(check, k)
		}
		out.One(k, buf, 0)
		var zero V
		buf = zero
	}})
	return out
}

// Split returns the two halves of each element as key and value.
func Split[E any, K comparable, V any](in *engine.Node[E], op *engine.Op, halves func(*E) (K, V)) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](engine.Derived(op, in))
	check := engine.MadeKeys[K](op)
	var c engine.Columns[K, V]
	var b engine.Batch[K, V]
	var buf E
	op.Scratch(&c, &b, &buf)
	in.Consume(&engine.Consumer[E]{Push: func(batch []E) {
		op.Loc.At = op.Index
		c.K, c.V = engine.Resize(c.K, len(batch)), engine.Resize(c.V, len(batch))
		for i := range batch {
			c.K[i], c.V[i] = halves(&batch[i])
		}
		if check != nil {
			check(c.K)
		}
		b = engine.Batch[K, V]{K: c.K, V: c.V}
		out.Push(&b)
	}, One: func(x E) {
		op.Loc.At = op.Index
		buf = x
		k, v := halves(&buf)
		if check != nil {
			k = engine.CheckMade(check, k)
		}
		var zero E
		buf = zero
		out.One(k, v, 0)
	}})
	return out
}

// Zip returns one element for each key and value.
func Zip[E any, K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op, join func(K, V) E) *engine.Node[E] {
	out := engine.NewNode[E](engine.Derived(op, in))
	var buf []E
	op.Scratch(&buf)
	in.To(func(b *engine.Batch[K, V]) {
		buf = engine.Resize(buf, len(b.K))
		vs := b.V[:len(b.K)]
		for i, k := range b.K {
			buf[i] = join(k, vs[i])
		}
		out.Push(buf)
	}).One = func(k K, v V, _ uint64) { out.One(join(k, v)) }
	return out
}

// Values returns the value column.
func Values[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op) *engine.Node[V] {
	out := engine.NewNode[V](engine.Derived(op, in))
	in.To(func(b *engine.Batch[K, V]) { out.Push(b.V) }).One = func(_ K, v V, _ uint64) { out.One(v) }
	return out
}

// Keys returns the key column.
func Keys[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op) *engine.Node[K] {
	out := engine.NewNode[K](engine.Derived(op, in))
	in.To(func(b *engine.Batch[K, V]) { out.Push(b.K) }).One = func(k K, _ V, _ uint64) { out.One(k) }
	return out
}

// KMap returns f of each value, under its key.
func KMap[K comparable, V, U any](in *engine.KeyedNode[K, V], op *engine.Op, f func(V) U) *engine.KeyedNode[K, U] {
	out := seen(in, op, func(_ K, v V) (U, bool) { return f(v), true })
	var buf []U
	var o engine.Batch[K, U]
	op.Scratch(&buf, &o)
	c, cur := track(op, in, func(b *engine.Batch[K, V]) {
		buf = engine.Resize(buf, len(b.V))
		us := buf
		for i, v := range b.V {
			if op.At = i; b.Gone == nil || !b.Gone[i] {
				us[i] = f(v)
			}
		}
		o = engine.Batch[K, U]{K: b.K, V: us, H: b.H, Gone: b.Gone}
		out.Push(&o)
	})
	c.Gone = out.WantsGone
	c.MakeOne = func() func(K, V, uint64) {
		next := out.One
		return func(k K, v V, h uint64) {
			cur.enter(k)
			next(k, f(v), h)
		}
	}
	return out
}

// KMapWithKey returns f of each key and value, under its key.
func KMapWithKey[K comparable, V, U any](in *engine.KeyedNode[K, V], op *engine.Op, f func(K, V) U) *engine.KeyedNode[K, U] {
	out := seen(in, op, func(k K, v V) (U, bool) { return f(k, v), true })
	var buf []U
	var o engine.Batch[K, U]
	op.Scratch(&buf, &o)
	c, cur := track(op, in, func(b *engine.Batch[K, V]) {
		buf = engine.Resize(buf, len(b.V))
		us := buf
		for i, v := range b.V {
			if op.At = i; b.Gone == nil || !b.Gone[i] {
				us[i] = f(b.K[i], v)
			}
		}
		o = engine.Batch[K, U]{K: b.K, V: us, H: b.H, Gone: b.Gone}
		out.Push(&o)
	})
	c.Gone = out.WantsGone
	c.MakeOne = func() func(K, V, uint64) {
		next := out.One
		return func(k K, v V, h uint64) {
			cur.enter(k)
			next(k, f(k, v), h)
		}
	}
	return out
}

// KFilterMap returns the values that f returned with true, under their keys. If values are revised, an entry that f now drops is
// removed.
func KFilterMap[K comparable, V, U any](in *engine.KeyedNode[K, V], op *engine.Op, f func(K, V) (U, bool)) *engine.KeyedNode[K, U] {
	out := seen(in, op, f)
	if out.Region == nil {
		out.Index = nil // a change of a dropped entry is no change, so the content cannot be seen through f
	}
	var c engine.Columns[K, U]
	var gone []bool
	var o engine.Batch[K, U]
	op.Scratch(&c, &gone, &o)
	consumer, cur := track(op, in, func(b *engine.Batch[K, V]) {
		n := len(b.K)
		c.K, c.V = engine.Resize(c.K, n), engine.Resize(c.V, n)
		if b.H != nil {
			c.H = engine.Resize(c.H, n)
		}
		m := 0
		if !in.Revises {
			for i, k := range b.K {
				op.At = i
				u, ok := f(k, b.V[i])
				c.K[m], c.V[m] = k, u
				if b.H != nil {
					c.H[m] = b.H[i]
				}
				if ok {
					m++
				}
			}
			gone = gone[:0]
		} else {
			gone = engine.Resize(gone, n)
			for i, k := range b.K {
				op.At = i
				var u U
				var ok bool
				if b.Gone == nil || !b.Gone[i] {
					if u, ok = f(k, b.V[i]); !ok && in.Forgets {
						continue // it was not present before
					}
				}
				c.K[m], c.V[m], gone[m] = k, u, !ok
				if b.H != nil {
					c.H[m] = b.H[i]
				}
				m++
			}
		}
		if m == 0 {
			return
		}
		o = engine.Batch[K, U]{K: c.K[:m], V: c.V[:m]}
		if b.H != nil {
			o.H = c.H[:m]
		}
		if len(gone) > 0 {
			o.Gone = gone[:m]
		}
		out.Push(&o)
	})
	consumer.Gone = out.WantsGone
	if in.Revises && !in.Forgets {
		return out // a dropped entry is pushed as a removal
	}
	consumer.MakeOne = func() func(K, V, uint64) {
		next := out.One
		return func(k K, v V, h uint64) {
			cur.enter(k)
			if u, ok := f(k, v); ok {
				next(k, u, h)
			}
		}
	}
	return out
}

// KInspect calls f with each key and value and passes the batch on.
func KInspect[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op, f func(K, V)) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](engine.Same(op.Name, in))
	out.Index, out.Fresh, out.Lives, out.Revises, out.Forgets = in.Index, in.Fresh, in.Lives, in.Revises, in.Forgets
	c, cur := track(op, in, func(b *engine.Batch[K, V]) {
		for i, k := range b.K {
			if op.At = i; b.Gone == nil || !b.Gone[i] {
				f(k, b.V[i])
			}
		}
		out.Push(b)
	})
	c.Gone = out.WantsGone
	c.MakeOne = func() func(K, V, uint64) {
		next := out.One
		return func(k K, v V, h uint64) {
			cur.enter(k)
			f(k, v)
			next(k, v, h)
		}
	}
	return out
}

// seen returns the node of an operator that turns each entry into at most one under the same key. If the content of in is kept,
// that of the result need not be, because it is computed through f.
func seen[K comparable, V, U any](in *engine.KeyedNode[K, V], op *engine.Op, f func(K, V) (U, bool)) *engine.KeyedNode[K, U] {
	out := engine.NewKeyedNode[K, U](engine.Same(op.Name, in))
	out.Fresh, out.Lives, out.Revises, out.Forgets = in.Fresh, in.Lives, in.Revises, in.Forgets
	if in.Index != nil {
		out.Index = newView(in.Index, op, f)
	}
	return out
}

// track adds a consumer that runs user code on keyed data, so that a panic can name the key. The function for batches keeps op.At
// up to date. The function for single entries, if there is one, calls cur.enter.
func track[K comparable, V any](op *engine.Op, in *engine.KeyedNode[K, V], f func(*engine.Batch[K, V])) (c *engine.KeyedConsumer[K, V], cur *current[K]) {
	var batch *engine.Batch[K, V]
	op.Scratch(&batch)
	cur = &current[K]{at: &op.Loc.At, index: op.Index}
	op.Key = func() any {
		switch {
		case batch == nil:
			return cur.key
		case op.At >= len(batch.K):
			return nil
		}
		return batch.K[op.At]
	}
	return in.To(func(b *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		batch = b
		f(b)
		batch = nil
	}), cur
}

// A current is the single entry on which an operator works, for errors.
type current[K comparable] struct {
	at    *int32 // of the location
	index int32  // of the operator
	key   K
}

// enter records that the operator is about to call user code on the entry of k.
func (c *current[K]) enter(k K) { *c.at, c.key = c.index, k }

// emissions are what a function emitted for one entry: usually nothing or one value.
type emissions[K comparable, U any] struct {
	any   bool
	first U
	more  []U
	c     engine.Columns[K, U]
	b     engine.Batch[K, U]
}

func (e *emissions[K, U]) add(u U) {
	if e.any {
		e.more = append(e.more, u)
		return
	}
	e.any, e.first = true, u
}

// pushTo pushes what was emitted under k, and clears it.
func (e *emissions[K, U]) pushTo(out *engine.KeyedNode[K, U], k K, h uint64) {
	u := e.first
	var zero U
	e.any, e.first = false, zero
	if len(e.more) == 0 {
		out.One(k, u, h)
		return
	}
	e.c.K, e.c.V = append(e.c.K, k), append(e.c.V, u)
	for _, u := range e.more {
		e.c.K, e.c.V = append(e.c.K, k), append(e.c.V, u)
	}
	if h != 0 {
		for range e.c.K {
			e.c.H = append(e.c.H, h)
		}
	}
	clear(e.more)
	e.more = e.more[:0]
	engine.PushEntries(out, e.c, &e.b)
	clear(e.c.K)
	clear(e.c.V)
	e.c = engine.Columns[K, U]{K: e.c.K[:0], V: e.c.V[:0], H: e.c.H[:0]}
}
