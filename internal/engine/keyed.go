package engine

// A Pair is an entry as it travels in a plain stream.
type Pair[K comparable, V any] struct {
	Key   K
	Value V
}

// KeyBy returns the elements of in under the key of each. The values are not copied.
func KeyBy[K comparable, V any](in *Node[V], op *Op, key func(V) K) *KNode[K, V] {
	out := NewKNode[K, V](derived(op, in))
	check := madeKeys[K](op)
	var ks []K
	var b Batch[K, V]
	op.scratch(&ks, &b)
	in.to(&consumer[V]{push: func(batch []V) {
		op.site.at = op.index
		ks = resize(ks, len(batch))
		o := ks[:len(batch)]
		for i, x := range batch {
			o[i] = key(x)
		}
		if check != nil {
			check(o)
		}
		b = Batch[K, V]{K: o, V: batch}
		out.push(&b)
	}, one: func(x V) {
		op.site.at = op.index
		k := key(x)
		if check != nil {
			checkMade(check, k)
		}
		out.one(k, x, 0)
	}})
	return out
}

// KeyByRef is KeyBy for elements that are dear to copy.
func KeyByRef[K comparable, V any](in *Node[V], op *Op, key func(*V) K) *KNode[K, V] {
	out := NewKNode[K, V](derived(op, in))
	check := madeKeys[K](op)
	var ks []K
	var b Batch[K, V]
	var room V
	op.scratch(&ks, &b, &room)
	in.to(&consumer[V]{push: func(batch []V) {
		op.site.at = op.index
		ks = resize(ks, len(batch))
		o := ks[:len(batch)]
		for i := range batch {
			o[i] = key(&batch[i])
		}
		if check != nil {
			check(o)
		}
		b = Batch[K, V]{K: o, V: batch}
		out.push(&b)
	}, one: func(x V) {
		op.site.at = op.index
		room = x
		k := key(&room)
		if check != nil {
			checkMade(check, k)
		}
		out.one(k, room, 0)
		var zero V
		room = zero
	}})
	return out
}

// Split returns the two halves of each element as key and value.
func Split[E any, K comparable, V any](in *Node[E], op *Op, halves func(*E) (K, V)) *KNode[K, V] {
	out := NewKNode[K, V](derived(op, in))
	check := madeKeys[K](op)
	var c columns[K, V]
	var b Batch[K, V]
	var room E
	op.scratch(&c, &b, &room)
	in.to(&consumer[E]{push: func(batch []E) {
		op.site.at = op.index
		c.k, c.v = resize(c.k, len(batch)), resize(c.v, len(batch))
		for i := range batch {
			c.k[i], c.v[i] = halves(&batch[i])
		}
		if check != nil {
			check(c.k)
		}
		b = Batch[K, V]{K: c.k, V: c.v}
		out.push(&b)
	}, one: func(x E) {
		op.site.at = op.index
		room = x
		k, v := halves(&room)
		if check != nil {
			checkMade(check, k)
		}
		var zero E
		room = zero
		out.one(k, v, 0)
	}})
	return out
}

// Zip returns one element for each key and value.
func Zip[E any, K comparable, V any](in *KNode[K, V], op *Op, join func(K, V) E) *Node[E] {
	out := NewNode[E](derived(op, in))
	var buf []E
	op.scratch(&buf)
	in.To(func(b *Batch[K, V]) {
		buf = resize(buf, len(b.K))
		vs := b.V[:len(b.K)]
		for i, k := range b.K {
			buf[i] = join(k, vs[i])
		}
		out.push(buf)
	}).one = func(k K, v V, _ uint64) { out.one(join(k, v)) }
	return out
}

// Values returns the value column.
func Values[K comparable, V any](in *KNode[K, V], op *Op) *Node[V] {
	out := NewNode[V](derived(op, in))
	in.To(func(b *Batch[K, V]) { out.push(b.V) }).one = func(_ K, v V, _ uint64) { out.one(v) }
	return out
}

// Keys returns the key column.
func Keys[K comparable, V any](in *KNode[K, V], op *Op) *Node[K] {
	out := NewNode[K](derived(op, in))
	in.To(func(b *Batch[K, V]) { out.push(b.K) }).one = func(k K, _ V, _ uint64) { out.one(k) }
	return out
}

// KMap returns f of each value, under its key.
func KMap[K comparable, V, U any](in *KNode[K, V], op *Op, f func(V) U) *KNode[K, U] {
	out := seen(in, op, func(_ K, v V) (U, bool) { return f(v), true })
	var buf []U
	var o Batch[K, U]
	op.scratch(&buf, &o)
	c, cur := track(op, in, func(b *Batch[K, V]) {
		buf = resize(buf, len(b.V))
		us := buf
		for i, v := range b.V {
			if op.at = i; b.Gone == nil || !b.Gone[i] {
				us[i] = f(v)
			}
		}
		o = Batch[K, U]{K: b.K, V: us, H: b.H, Gone: b.Gone}
		out.push(&o)
	})
	c.one = func(k K, v V, h uint64) {
		cur.enter(k)
		out.one(k, f(v), h)
	}
	return out
}

// KMapWithKey returns f of each key and value, under its key.
func KMapWithKey[K comparable, V, U any](in *KNode[K, V], op *Op, f func(K, V) U) *KNode[K, U] {
	out := seen(in, op, func(k K, v V) (U, bool) { return f(k, v), true })
	var buf []U
	var o Batch[K, U]
	op.scratch(&buf, &o)
	c, cur := track(op, in, func(b *Batch[K, V]) {
		buf = resize(buf, len(b.V))
		us := buf
		for i, v := range b.V {
			if op.at = i; b.Gone == nil || !b.Gone[i] {
				us[i] = f(b.K[i], v)
			}
		}
		o = Batch[K, U]{K: b.K, V: us, H: b.H, Gone: b.Gone}
		out.push(&o)
	})
	c.one = func(k K, v V, h uint64) {
		cur.enter(k)
		out.one(k, f(k, v), h)
	}
	return out
}

// KFilterMap returns what f returned with true, under its key. Where values are
// revised, an entry that f drops now is removed.
func KFilterMap[K comparable, V, U any](in *KNode[K, V], op *Op, f func(K, V) (U, bool)) *KNode[K, U] {
	out := seen(in, op, f)
	if out.region == nil {
		out.live = nil // a change of what is dropped is no change, so that it cannot be seen through f
	}
	var c columns[K, U]
	var gone []bool
	var o Batch[K, U]
	op.scratch(&c, &gone, &o)
	consumer, cur := track(op, in, func(b *Batch[K, V]) {
		n := len(b.K)
		c.k, c.v = resize(c.k, n), resize(c.v, n)
		if b.H != nil {
			c.h = resize(c.h, n)
		}
		m := 0
		if !in.revises {
			for i, k := range b.K {
				op.at = i
				u, ok := f(k, b.V[i])
				c.k[m], c.v[m] = k, u
				if b.H != nil {
					c.h[m] = b.H[i]
				}
				if ok {
					m++
				}
			}
			gone = gone[:0]
		} else {
			gone = resize(gone, n)
			for i, k := range b.K {
				op.at = i
				var u U
				var ok bool
				if b.Gone == nil || !b.Gone[i] {
					u, ok = f(k, b.V[i])
				}
				c.k[m], c.v[m], gone[m] = k, u, !ok
				if b.H != nil {
					c.h[m] = b.H[i]
				}
				m++
			}
		}
		if m == 0 {
			return
		}
		o = Batch[K, U]{K: c.k[:m], V: c.v[:m]}
		if b.H != nil {
			o.H = c.h[:m]
		}
		if len(gone) > 0 {
			o.Gone = gone[:m]
		}
		out.push(&o)
	})
	if in.revises {
		return out // what is dropped is pushed as a removal
	}
	consumer.one = func(k K, v V, h uint64) {
		cur.enter(k)
		if u, ok := f(k, v); ok {
			out.one(k, u, h)
		}
	}
	return out
}

// KInspect calls f with each key and value and passes the batch on.
func KInspect[K comparable, V any](in *KNode[K, V], op *Op, f func(K, V)) *KNode[K, V] {
	out := NewKNode[K, V](Same(op.Name, in))
	out.live, out.fresh, out.revises = in.live, in.fresh, in.revises
	c, cur := track(op, in, func(b *Batch[K, V]) {
		for i, k := range b.K {
			if op.at = i; b.Gone == nil || !b.Gone[i] {
				f(k, b.V[i])
			}
		}
		out.push(b)
	})
	c.one = func(k K, v V, h uint64) {
		cur.enter(k)
		f(k, v)
		out.one(k, v, h)
	}
	return out
}

// KMerge returns the batches of all of ins.
func KMerge[K comparable, V any](op *Op, ins ...*KNode[K, V]) *KNode[K, V] {
	hs := make([]header, len(ins))
	for i, in := range ins {
		hs[i] = in
	}
	out := NewKNode[K, V](derived(op, hs...))
	var o Batch[K, V]
	op.scratch(&o)
	for _, in := range ins {
		// A consumer keeps the hashes of a batch in memory of its own, which the next batch
		// overwrites. Of what reaches it on several ways each has a batch of its own, or one
		// would be found with the hashes of another.
		in.To(func(b *Batch[K, V]) {
			o = *b
			out.push(&o)
		}).one = func(k K, v V, h uint64) { out.one(k, v, h) }
	}
	return out
}

// seen returns the node of an operator that turns each entry into at most one under
// the same key. If the content of in is kept, that of the result need not be: it is
// seen through f.
func seen[K comparable, V, U any](in *KNode[K, V], op *Op, f func(K, V) (U, bool)) *KNode[K, U] {
	out := NewKNode[K, U](Same(op.Name, in))
	out.fresh, out.revises = in.fresh, in.revises
	if in.live != nil {
		out.live = newThrough(in.live, op, f)
	}
	return out
}

// track adds a consumer that runs user code on keyed data, so that a panic can name
// the key. The batch form keeps op.at. The single form, if there is one, calls cur.enter.
func track[K comparable, V any](op *Op, in *KNode[K, V], f func(*Batch[K, V])) (c *keyedConsumer[K, V], cur *current[K]) {
	var batch *Batch[K, V]
	op.scratch(&batch)
	cur = &current[K]{op: op}
	op.key = func() any {
		switch {
		case batch == nil:
			return cur.key
		case op.at >= len(batch.K):
			return nil
		}
		return batch.K[op.at]
	}
	return in.To(func(b *Batch[K, V]) {
		op.site.at = op.index
		batch = b
		f(b)
		batch = nil
	}), cur
}
