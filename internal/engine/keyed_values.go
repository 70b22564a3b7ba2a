package engine

// KFlatMap returns everything that f emits for each value, under its key.
func KFlatMap[K comparable, V, U any](in *KNode[K, V], op *Op, f func(V, func(U))) *KNode[K, U] {
	out := NewKNode[K, U](derived(op, in))
	size := min(block[K](), block[U]())
	var c columns[K, U]
	var key K
	var o Batch[K, U]
	op.holds(&c)
	op.scratch(&key, &o)
	flush := func() {
		o = Batch[K, U]{K: c.k, V: c.v}
		out.push(&o)
		c = columns[K, U]{k: c.k[:0], v: c.v[:0]}
		op.enter() // f goes on
	}
	emit := func(u U) {
		if c.k, c.v = append(c.k, key), append(c.v, u); len(c.k) >= size {
			flush()
		}
	}
	consumer, cur := track(op, in, func(b *Batch[K, V]) {
		for i, k := range b.K {
			op.at, key = i, k
			f(b.V[i], emit)
		}
		if len(c.k) > 0 {
			flush()
		}
	})
	var es emissions[K, U]
	op.scratch(&es)
	add := es.add
	consumer.one = func(k K, v V, h uint64) {
		cur.enter(k)
		if f(v, add); es.any {
			es.pushTo(out, k, h)
		}
	}
	return out
}

// KRekey returns each value under the key that f gives it.
func KRekey[K, J comparable, V any](in *KNode[K, V], op *Op, f func(K, V) J) *KNode[J, V] {
	out := NewKNode[J, V](derived(op, in))
	check := madeKeys[J](op)
	var js []J
	var o Batch[J, V]
	op.scratch(&js, &o)
	consumer, cur := track(op, in, func(b *Batch[K, V]) {
		js = resize(js, len(b.K))
		for i, k := range b.K {
			op.at = i
			if js[i] = f(k, b.V[i]); check != nil {
				check(js[i : i+1])
			}
		}
		o = Batch[J, V]{K: js, V: b.V}
		out.push(&o)
	})
	consumer.one = func(k K, v V, _ uint64) {
		cur.enter(k)
		j := f(k, v)
		if check != nil {
			checkMade(check, j)
		}
		out.one(j, v, 0)
	}
	return out
}

// KFork returns the first result of f for each value where the third is true, and the
// second where it is not, under their keys. Where values are revised, an entry moves
// from one to the other.
func KFork[K comparable, V, U, W any](in *KNode[K, V], op *Op, f func(V) (U, W, bool)) (*KNode[K, U], *KNode[K, W]) {
	yes := seen(in, op, func(_ K, v V) (U, bool) { u, _, ok := f(v); return u, ok })
	no := seen(in, op, func(_ K, v V) (W, bool) { _, w, ok := f(v); return w, !ok })
	if yes.region == nil {
		yes.live, no.live = nil, nil // see KFilterMap
	}
	var y columns[K, U]
	var n columns[K, W]
	var ygone, ngone []bool
	var yb Batch[K, U]
	var nb Batch[K, W]
	op.scratch(&y, &n, &ygone, &ngone, &yb, &nb)
	consumer, cur := track(op, in, func(b *Batch[K, V]) {
		y.k, y.v, ygone = y.k[:0], y.v[:0], ygone[:0]
		n.k, n.v, ngone = n.k[:0], n.v[:0], ngone[:0]
		for i, k := range b.K {
			op.at = i
			gone := b.Gone != nil && b.Gone[i]
			var u U
			var w W
			var ok bool
			if !gone {
				u, w, ok = f(b.V[i])
			}
			if in.revises || ok {
				y.k, y.v, ygone = append(y.k, k), append(y.v, u), append(ygone, !ok)
			}
			if in.revises || !ok {
				n.k, n.v, ngone = append(n.k, k), append(n.v, w), append(ngone, ok || gone)
			}
		}
		yb, nb = Batch[K, U]{K: y.k, V: y.v}, Batch[K, W]{K: n.k, V: n.v}
		if in.revises {
			yb.H, yb.Gone, nb.H, nb.Gone = b.H, ygone, b.H, ngone
		}
		if len(y.k) > 0 {
			yes.push(&yb)
		}
		if len(n.k) > 0 {
			no.push(&nb)
		}
	})
	if in.revises {
		return yes, no // an entry that moves from one to the other is removed there
	}
	consumer.one = func(k K, v V, h uint64) {
		cur.enter(k)
		if u, w, ok := f(v); ok {
			yes.one(k, u, h)
		} else {
			no.one(k, w, h)
		}
	}
	return yes, no
}

// A both is a key and one of its values.
type both[K, V comparable] struct {
	k K
	v V
}

// KUnique returns each pair of key and value the first time it comes.
func KUnique[K, V comparable](in *KNode[K, V], op *Op) *KNode[K, V] {
	out := NewKNode[K, V](derived(op, in))
	known := newTable(remember(op, &out.Head), bothForm[K, V], nothing)
	hash := hasher[both[K, V]]()
	var c columns[K, V]
	var o Batch[K, V]
	op.scratch(&c, &o)
	in.To(func(b *Batch[K, V]) {
		op.site.at = op.index
		c.k, c.v = c.k[:0], c.v[:0]
		for i, k := range b.K {
			x := both[K, V]{k, b.V[i]}
			if _, added := known.Put(x, hash.Hash(x)); added {
				c.k, c.v = append(c.k, x.k), append(c.v, x.v)
			}
		}
		if len(c.k) > 0 {
			o = Batch[K, V]{K: c.k, V: c.v}
			out.push(&o)
		}
	}).one = func(k K, v V, h uint64) {
		op.site.at = op.index
		if _, _, added := known.PutOne(hash, both[K, V]{k, v}, 0); added {
			out.one(k, v, h)
		}
	}
	return out
}

// KStep returns what f returned with true, given the state of each value's key, which
// starts as a zero S.
func KStep[K comparable, V, S, U any](in *KNode[K, V], op *Op, f func(*S, V) (U, bool)) *KNode[K, U] {
	out := NewKNode[K, U](derived(op, in))
	table := newTable(remember(op, &out.Head), plain[K], plain[S])
	hash := hasher[K]()
	var hs []uint64
	var c columns[K, U]
	var o Batch[K, U]
	op.scratch(&hs, &c, &o)
	in.To(func(b *Batch[K, V]) {
		op.site.at = op.index
		n := len(b.K)
		hs := b.hashes(hash, &hs)[:n]
		table.Touch(hs)
		c.k, c.v, c.h = resize(c.k, n), resize(c.v, n), resize(c.h, n)
		vs, m := b.V[:n], 0
		for i, k := range b.K {
			s, _ := table.Put(k, hs[i])
			u, ok := f(s, vs[i])
			c.k[m], c.v[m], c.h[m] = k, u, hs[i]
			if ok {
				m++
			}
		}
		if m > 0 {
			o = Batch[K, U]{K: c.k[:m], V: c.v[:m], H: c.h[:m]}
			out.push(&o)
		}
	}).one = func(k K, v V, h uint64) {
		op.site.at = op.index
		s, h, _ := table.PutOne(hash, k, h)
		if u, ok := f(s, v); ok {
			out.one(k, u, h)
		}
	}
	return out
}

// KReduce is KFold for an aggregate that starts from a key's first value.
func KReduce[K comparable, V any](in *KNode[K, V], op *Op, step func(*V, V)) *KNode[K, V] {
	first := false
	op.scratch(&first)
	return KFold(in, op,
		func() (_ V) { first = true; return }, // a step with this key's first value follows
		func(acc *V, v V) {
			if first {
				first, *acc = false, v
				return
			}
			step(acc, v)
		})
}

// KExtreme is KReduce for a function that picks one of two values. At the top level a
// value is passed on only if another one was picked, so that a repeat shows nowhere.
func KExtreme[K, V comparable](in *KNode[K, V], op *Op, pick func(acc, v V) V) *KNode[K, V] {
	out := NewKNode[K, V](derived(op, in))
	t := &kept[K, V]{table: newTable(remember(op, &out.Head), plain[K], plain[V])}
	op.scratch(&t.room)
	streaming := out.region == nil
	if streaming {
		out.live, out.revises = t, true
	} else {
		out.region.atStep(func() { t.Each(out.push) })
	}
	hash := hasher[K]()
	var hs []uint64
	var c columns[K, V]
	var o Batch[K, V]
	op.holds(&c)
	op.scratch(&hs, &o)
	in.To(func(b *Batch[K, V]) {
		op.site.at = op.index
		hs := b.hashes(hash, &hs)
		t.table.Touch(hs)
		for i, k := range b.K {
			p, added := t.table.Put(k, hs[i])
			old := *p
			if *p = b.V[i]; !added {
				*p = pick(old, b.V[i])
			}
			if streaming && (added || *p != old) {
				c.k, c.v, c.h = append(c.k, k), append(c.v, *p), append(c.h, hs[i])
			}
		}
		if len(c.k) > 0 {
			o = Batch[K, V]{K: c.k, V: c.v, H: c.h}
			out.push(&o)
			c = columns[K, V]{c.k[:0], c.v[:0], c.h[:0]}
			t.changed()
		}
	}).one = func(k K, v V, h uint64) {
		op.site.at = op.index
		p, h, added := t.table.PutOne(hash, k, h)
		old := *p
		if *p = v; !added {
			*p = pick(old, v)
		}
		if streaming && (added || *p != old) {
			out.one(k, *p, h)
			t.changed()
		}
	}
	return out
}
