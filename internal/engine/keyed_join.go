package engine

// KJoin returns what pair makes of each value of a and each value of b under the
// same key: each pair once, when the later of the two comes.
func KJoin[K comparable, V, W, U any](a *KNode[K, V], b *KNode[K, W], op *Op, pair func(V, W) U) *KNode[K, U] {
	out := NewKNode[K, U](derived(op, a, b))
	m := remember(op, &out.Head)
	left, right := newLists[K, V](m), newLists[K, W](m)
	matchSide(a, out, op, left, right, pair)
	matchSide(b, out, op, right, left, func(w W, v V) U { return pair(v, w) })
	return out
}

// matchSide remembers the values of in and pushes their pairs with what the other
// side has so far.
func matchSide[K comparable, V, W, U any](in *KNode[K, V], out *KNode[K, U], op *Op, mine *lists[K, V], other *lists[K, W], pair func(V, W) U) {
	hash := hasher[K]()
	var hs []uint64
	var c columns[K, U]
	var o Batch[K, U]
	op.holds(&c)
	op.scratch(&hs, &o)
	size := min(block[K](), block[U]())
	flush := func() {
		o = Batch[K, U]{K: c.k, V: c.v, H: c.h}
		out.push(&o)
		c = columns[K, U]{c.k[:0], c.v[:0], c.h[:0]}
	}
	in.To(func(b *Batch[K, V]) {
		op.site.at = op.index
		hs := b.hashes(hash, &hs)
		mine.table.Touch(hs)
		other.table.Touch(hs)
		for i, k := range b.K {
			mine.add(k, hs[i], b.V[i])
			for n := other.first(k, hs[i]); n != 0; {
				x := other.item(n)
				n = x.next
				c.k, c.v, c.h = append(c.k, k), append(c.v, pair(b.V[i], x.v)), append(c.h, hs[i])
				if len(c.k) >= size {
					flush()
				}
			}
		}
		if len(c.k) > 0 {
			flush()
		}
	}).one = func(k K, v V, h uint64) {
		op.site.at = op.index
		if h == 0 {
			h = hash.Hash(k)
		}
		mine.add(k, h, v)
		n := other.first(k, h)
		if n == 0 {
			return
		}
		if x := other.item(n); x.next == 0 {
			out.one(k, pair(v, x.v), h)
			return
		}
		for n != 0 {
			x := other.item(n)
			n = x.next
			c.k, c.v, c.h = append(c.k, k), append(c.v, pair(v, x.v)), append(c.h, h)
			if len(c.k) >= size {
				flush()
			}
		}
		if len(c.k) > 0 {
			flush()
		}
	}
}

// KLookup returns, for each entry of left, what pair makes of its value and of
// each value that right has under it, or of nothing if it has none. Both are in one
// region.
func KLookup[K, V comparable, W, U any](left *KNode[K, V], right *KNode[V, W], op *Op, pair func(V, Found[W]) U) *KNode[K, U] {
	out := NewKNode[K, U](inRegion(op, left, right))
	content := newLists[V, W](remember(op, &out.Head))
	hash := hasher[V]()
	var hs []uint64
	right.To(func(b *Batch[V, W]) {
		op.site.at = op.index
		for i, h := range b.hashes(hash, &hs) {
			content.add(b.K[i], h, b.V[i])
		}
	}).one = func(k V, w W, h uint64) {
		op.site.at = op.index
		if h == 0 {
			h = hash.Hash(k)
		}
		content.add(k, h, w)
	}
	var c columns[K, U]
	var o Batch[K, U]
	op.holds(&c)
	op.scratch(&hs, &o)
	deferred(left, op, false, func(b *Batch[K, V]) {
		op.enter() // a value may turn out not to be hashable
		for i, v := range b.V {
			n := content.first(v, hash.Hash(v))
			if n == 0 {
				c.k, c.v = append(c.k, b.K[i]), append(c.v, pair(v, Found[W]{}))
			}
			for n != 0 {
				x := content.item(n)
				n = x.next
				c.k, c.v = append(c.k, b.K[i]), append(c.v, pair(v, Found[W]{x.v, true}))
			}
		}
		c.pushBlocks(out, &o)
		c = columns[K, U]{k: c.k[:0], v: c.v[:0]}
	}, func(k K, v V, h uint64) {
		op.enter()
		n := content.first(v, hash.Hash(v))
		if n == 0 {
			out.one(k, pair(v, Found[W]{}), h)
		}
		for n != 0 {
			x := content.item(n)
			n = x.next
			c.k, c.v = append(c.k, k), append(c.v, pair(v, Found[W]{x.v, true}))
		}
		c.pushBlocks(out, &o)
		c = columns[K, U]{k: c.k[:0], v: c.v[:0]}
	})
	return out
}

// KWithout returns the batches of in without the keys that are elements of keys. Either
// both are in one region, or keys is a constant.
func KWithout[K comparable, V any](in *KNode[K, V], keys *Node[K], op *Op) *KNode[K, V] {
	h := besideConstant(op, keys, in)
	out := NewKNode[K, V](h)
	out.fresh, out.revises = in.fresh, in.revises
	hash := hasher[K]()
	excluded := newSet[K](ofConstants(op, &h))
	keys.To(func(batch []K) {
		op.site.at = op.index
		for _, k := range batch {
			excluded.Put(k, hash.Hash(k))
		}
	})
	if h.region != nil {
		if in.live != nil {
			out.live = newThrough(in.live, op, func(k K, v V) (V, bool) {
				return v, excluded.Get(k, hash.Hash(k)) == nil
			})
		}
	}
	var hs []uint64
	var c columns[K, V]
	var gone []bool
	var o Batch[K, V]
	op.scratch(&hs, &c, &gone, &o)
	deferred(in, op, h.region == nil, func(b *Batch[K, V]) {
		op.site.at = op.index
		n, m := len(b.K), 0
		c.k, c.v, c.h, gone = resize(c.k, n), resize(c.v, n), resize(c.h, n), resize(gone, n)
		for i, h := range b.hashes(hash, &hs) {
			if excluded.Get(b.K[i], h) != nil {
				continue
			}
			c.k[m], c.v[m], c.h[m] = b.K[i], b.V[i], h
			gone[m] = b.Gone != nil && b.Gone[i]
			m++
		}
		if m == 0 {
			return
		}
		o = Batch[K, V]{K: c.k[:m], V: c.v[:m], H: c.h[:m]}
		if b.Gone != nil {
			o.Gone = gone[:m]
		}
		out.push(&o)
	}, func(k K, v V, h uint64) {
		op.site.at = op.index
		if h == 0 {
			h = hash.Hash(k)
		}
		if excluded.Get(k, h) == nil {
			out.one(k, v, h)
		}
	})
	return out
}

// KGet returns the value that in has under the value of key, if both are there. Both
// are in one region.
func KGet[K comparable, V any](in *KNode[K, V], key *Cell[K], op *Op) *Cell[V] {
	h := inRegion(op, in, key)
	content := in.Live()
	out := NewCell[V](h)
	hash := hasher[K]()
	h.region.atStep(func() {
		if !key.set {
			return
		}
		op.enter()
		if v, ok := content.Get(key.value, hash.Hash(key.value)); ok {
			out.Set(v)
		}
	})
	return out
}

// KMaxKey returns the entry with the largest key, once there is one.
func KMaxKey[K comparable, V, E any](in *KNode[K, V], op *Op, less func(a, b K) bool, entry func(K, V) E) *Cell[E] {
	h := derived(op, in)
	out := NewCell[E](h)
	m := remember(op, &h)
	max, value, found := newVar(m, *new(K)), newVar(m, *new(V)), newVar(m, false)
	look := func(b *Batch[K, V]) (better bool) {
		for i, k := range b.K {
			if !*found || less(*max, k) {
				*max, *value, *found, better = k, b.V[i], true, true
			}
		}
		return better
	}
	lookOne := func(k K, v V) (better bool) {
		if better = !*found || less(*max, k); better {
			*max, *value, *found = k, v, true
		}
		return better
	}
	if h.region == nil {
		in.To(func(b *Batch[K, V]) {
			if look(b) {
				out.Set(entry(*max, *value))
			}
		}).one = func(k K, v V, _ uint64) {
			if lookOne(k, v) {
				out.Set(entry(k, v))
			}
		}
		return out
	}
	in.To(func(b *Batch[K, V]) { look(b) }).one = func(k K, v V, _ uint64) { lookOne(k, v) }
	h.region.atStep(func() {
		if *found {
			out.Set(entry(*max, *value))
		}
	})
	return out
}
