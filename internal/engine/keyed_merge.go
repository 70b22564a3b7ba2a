package engine

// besideConstant returns the head of an operator over a constant and n: where n is no
// constant, the operator is at the top level, and the constant is complete before
// any batch of n.
func besideConstant(op *Op, constant, n header) Head {
	c, x := constant.head(), n.head()
	if x.region == nil && c.region == &c.site.starts && x.site == c.site {
		h := *x
		h.site.reads(c)
		h.site.reads(x)
		h.part.join(c.part)
		h.ready = false
		return h
	}
	return derived(op, constant, n)
}

// KChain returns the batches of first and then those of then. Either both are in one
// region, or first is a constant.
func KChain[K comparable, V any](op *Op, first, then *KNode[K, V]) *KNode[K, V] {
	h := besideConstant(op, first, then)
	out := NewKNode[K, V](h)
	var kept keptBatches[K, V]
	op.holds(&kept)
	if h.region != nil {
		first.To(func(b *Batch[K, V]) { out.push(b) }).one = func(k K, v V, h uint64) { out.one(k, v, h) }
		then.To(kept.keep).one = kept.keepOne
		h.region.atStep(func() { kept.pushTo(out) })
		return out
	}
	// Other constants may reach then while the flow starts, and before first.
	var head keptBatches[K, V]
	op.holds(&head)
	open := afterStart(h.site, func() {
		head.pushTo(out)
		kept.pushTo(out)
		head, kept = keptBatches[K, V]{}, keptBatches[K, V]{}
	})
	first.To(head.keep).one = head.keepOne
	then.To(func(b *Batch[K, V]) {
		if *open {
			out.push(b)
		} else {
			kept.keep(b)
		}
	}).one = func(k K, v V, h uint64) {
		if *open {
			out.one(k, v, h)
		} else {
			kept.keepOne(k, v, h)
		}
	}
	return out
}

// keptBatches are copies of what was pushed, for an operator that passes it on later.
type keptBatches[K comparable, V any] struct {
	c columns[K, V]
	b Batch[K, V]
}

func (x *keptBatches[K, V]) keep(b *Batch[K, V]) {
	x.c.k, x.c.v = append(x.c.k, b.K...), append(x.c.v, b.V...)
}

func (x *keptBatches[K, V]) keepOne(k K, v V, _ uint64) {
	x.c.k, x.c.v = append(x.c.k, k), append(x.c.v, v)
}

func (x *keptBatches[K, V]) pushTo(out *KNode[K, V]) {
	x.c.pushBlocks(out, &x.b)
	clear(x.c.k)
	clear(x.c.v)
	x.c = columns[K, V]{k: x.c.k[:0], v: x.c.v[:0]}
}
