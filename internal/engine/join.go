package engine

// A Found is what a lookup yields: a value, if there was one.
type Found[V any] struct {
	Value V
	OK    bool
}

// deferred calls f with the batches of n: at once if what f reads is ready before
// any batch, else when all inputs of the region have been pushed.
func deferred[K comparable, V any](n *KNode[K, V], op *Op, ready bool, f func(*Batch[K, V]), one func(K, V, uint64)) {
	if ready {
		n.To(f).one = one
		return
	}
	var c columns[K, V]
	var b Batch[K, V]
	hash := hasher[K]()
	var hs []uint64
	op.holds(&c)
	op.scratch(&b, &hs)
	n.To(func(b *Batch[K, V]) {
		c.k, c.v = append(c.k, b.K...), append(c.v, b.V...)
		c.h = append(c.h, b.hashes(hash, &hs)...)
	}).one = func(k K, v V, h uint64) {
		if h == 0 {
			h = hash.Hash(k)
		}
		c.k, c.v, c.h = append(c.k, k), append(c.v, v), append(c.h, h)
	}
	each := &KNode[K, V]{push: f, one: one}
	n.region.atStep(func() {
		c.pushBlocks(each, &b)
		clear(c.k)
		clear(c.v)
		c = columns[K, V]{c.k[:0], c.v[:0], c.h[:0]}
	})
}

// Join returns, for each element of left whose key is in right, what pair makes of
// the two values. Both are in one region.
func Join[K comparable, V, W, U any](left *KNode[K, V], right *KNode[K, W], op *Op, pair func(V, W) U) *KNode[K, U] {
	h := inRegion(op, left, right)
	content := right.Live()
	ready := right.ready
	out := NewKNode[K, U](h)
	out.fresh = left.fresh
	hash := hasher[K]()
	var hs []uint64
	var at []*W
	var c columns[K, U]
	var o Batch[K, U]
	op.scratch(&hs, &at, &c, &o)
	deferred(left, op, ready, func(b *Batch[K, V]) {
		hs := b.hashes(hash, &hs)
		n := len(hs)
		ks, vs := b.K[:n], b.V[:n]
		at, c.v = resize(at, n), resize(c.v, n)
		us, m := c.v[:n], 0
		switch content.Find(ks, hs, at) {
		case 0:
			return
		case n: // the usual case: keys and hashes stay as they are
			for i, w := range at {
				us[i] = pair(vs[i], *w)
			}
			o = Batch[K, U]{K: ks, V: us, H: hs}
		default:
			c.k, c.h = resize(c.k, n), resize(c.h, n)
			for i, w := range at {
				if w != nil {
					c.k[m], us[m], c.h[m] = ks[i], pair(vs[i], *w), hs[i]
					m++
				}
			}
			o = Batch[K, U]{K: c.k[:m], V: us[:m], H: c.h[:m]}
		}
		clear(at) // so that it keeps no old table alive
		out.push(&o)
	}, func(k K, v V, h uint64) {
		if h == 0 {
			h = hash.Hash(k)
		}
		if w, ok := content.Get(k, h); ok {
			out.one(k, pair(v, w), h)
		}
	})
	return out
}

// Lookup returns, for each entry of left, what pair makes of its value and of what
// right has under that value. Both are in one region.
func Lookup[K, V comparable, W, U any](left *KNode[K, V], right *KNode[V, W], op *Op, pair func(V, Found[W]) U) *KNode[K, U] {
	h := inRegion(op, left, right)
	content := right.Live()
	ready := right.ready
	out := NewKNode[K, U](h)
	out.fresh = left.fresh
	hash := hasher[V]()
	var hs []uint64
	var at []*W
	var us []U
	var o Batch[K, U]
	op.scratch(&hs, &at, &us, &o)
	deferred(left, op, ready, func(b *Batch[K, V]) {
		op.enter() // a value may turn out not to be hashable
		n := len(b.V)
		hs, at, us = resize(hs, n), resize(at, n), resize(us, n)
		hash.HashAll(b.V, hs)
		content.Find(b.V, hs, at)
		for i, w := range at {
			var found Found[W]
			if w != nil {
				found = Found[W]{*w, true}
			}
			us[i] = pair(b.V[i], found)
		}
		clear(at)
		o = Batch[K, U]{K: b.K, V: us, H: b.H}
		out.push(&o)
	}, func(k K, v V, h uint64) {
		op.enter()
		w, ok := content.Get(v, hash.Hash(v))
		out.one(k, pair(v, Found[W]{w, ok}), h)
	})
	return out
}

// inRegion is derived for an operator that reads whole collections.
func inRegion(op *Op, ins ...header) Head {
	h := derived(op, ins...)
	if h.region == nil {
		Misuse(op.Name, "the collections are still changing: take a slice of them")
	}
	return h
}

// beside returns the head of an operator over n that reads c: both in one region, or
// c a constant. ready says that c has its value before any batch of n.
func beside(op *Op, n header, c *Head) (h Head, ready bool) {
	if x := n.head(); x.region == nil && c.region == &c.site.starts && x.site == c.site {
		h = *x
		h.site.reads(x)
		h.site.reads(c)
		h.part.join(c.part)
		h.ready = false
		return h, true
	}
	return derived(op, n, c), c.ready
}

// Cross returns what pair makes of each element and the value of c.
func Cross[T, W, U any](in *Node[T], c *Cell[W], op *Op, pair func(T, W) U) *Node[U] {
	h, ready := beside(op, in, &c.Head)
	out := NewNode[U](h)
	var buf []U
	op.scratch(&buf)
	f := func(batch []T) {
		if !c.set {
			return
		}
		buf = resize(buf, len(batch))
		for i, x := range batch {
			buf[i] = pair(x, c.value)
		}
		out.push(buf)
	}
	if ready {
		in.To(f)
		return out
	}
	var kept []T
	op.holds(&kept)
	each := &Node[T]{push: f, one: alone(f)}
	in.To(func(batch []T) { kept = append(kept, batch...) })
	h.region.atStep(func() {
		pushBlocks(each, kept)
		clear(kept)
		kept = kept[:0]
	})
	return out
}

// KCross returns what pair makes of each value and the value of c, under its key.
func KCross[K comparable, V, W, U any](in *KNode[K, V], c *Cell[W], op *Op, pair func(V, W) U) *KNode[K, U] {
	h, ready := beside(op, in, &c.Head)
	out := NewKNode[K, U](h)
	out.fresh, out.revises = in.fresh, in.revises
	var us []U
	var o Batch[K, U]
	op.scratch(&us, &o)
	deferred(in, op, ready, func(b *Batch[K, V]) {
		if !c.set {
			return
		}
		us = resize(us, len(b.V))
		for i, v := range b.V {
			us[i] = pair(v, c.value)
		}
		o = Batch[K, U]{K: b.K, V: us, H: b.H, Gone: b.Gone}
		out.push(&o)
	}, func(k K, v V, h uint64) {
		if c.set {
			out.one(k, pair(v, c.value), h)
		}
	})
	return out
}
