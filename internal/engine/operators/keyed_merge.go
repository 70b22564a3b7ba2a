package operators

import "github.com/millrace/millrace/internal/engine"

// KMerge returns the batches of all of ins.
func KMerge[K comparable, V any](op *engine.Op, ins ...*engine.KeyedNode[K, V]) *engine.KeyedNode[K, V] {
	hs := make([]engine.Header, len(ins))
	for i, in := range ins {
		hs[i] = in
	}
	out := engine.NewKeyedNode[K, V](engine.Merged(op, hs...))
	var o engine.Batch[K, V]
	op.Scratch(&o)
	for _, in := range ins {
		// A consumer keeps the hashes of a batch in memory of its own, which the next batch overwrites. A batch that reaches a
		// consumer in several ways is copied for each, so that none is found with the hashes of another.
		in.To(func(b *engine.Batch[K, V]) {
			o = *b
			out.Push(&o)
		}).One = func(k K, v V, h uint64) { out.One(k, v, h) }
	}
	return out
}

// besideConstant returns the head of an operator over a constant and n. If n is not a constant, the operator is at the top level,
// and the constant is complete before any batch of n.
func besideConstant(op *engine.Op, constant, n engine.Header) engine.Head {
	c, x := constant.Where(), n.Where()
	if x.Region == nil && c.Region == &c.Loc.Starts && x.Loc == c.Loc {
		h := *x
		h.Loc.Reads(c)
		h.Loc.Reads(x)
		h.Ready = false
		return h
	}
	return engine.Derived(op, constant, n)
}

// KChain returns the batches of first and then those of then. Both are in one region, or first is a constant.
func KChain[K comparable, V any](op *engine.Op, first, then *engine.KeyedNode[K, V]) *engine.KeyedNode[K, V] {
	h := besideConstant(op, first, then)
	out := engine.NewKeyedNode[K, V](h)
	var kept keptBatches[K, V]
	op.Holds(&kept)
	if h.Region != nil {
		first.To(func(b *engine.Batch[K, V]) { out.Push(b) }).One = func(k K, v V, h uint64) { out.One(k, v, h) }
		then.To(kept.keep).One = kept.keepOne
		h.Region.AtStep(func() { kept.pushTo(out) })
		return out
	}
	// Other constants may reach then during the start, before first is complete.
	var head keptBatches[K, V]
	op.Holds(&head)
	open := engine.AfterStart(h.Loc, func() {
		head.pushTo(out)
		kept.pushTo(out)
		head, kept = keptBatches[K, V]{}, keptBatches[K, V]{}
	})
	first.To(head.keep).One = head.keepOne
	then.To(func(b *engine.Batch[K, V]) {
		if *open {
			out.Push(b)
		} else {
			kept.keep(b)
		}
	}).One = func(k K, v V, h uint64) {
		if *open {
			out.One(k, v, h)
		} else {
			kept.keepOne(k, v, h)
		}
	}
	return out
}

// keptBatches are copies of pushed entries, for an operator that passes them on later.
type keptBatches[K comparable, V any] struct {
	c engine.Columns[K, V]
	b engine.Batch[K, V]
}

func (x *keptBatches[K, V]) keep(b *engine.Batch[K, V]) {
	x.c.K, x.c.V = append(x.c.K, b.K...), append(x.c.V, b.V...)
}

func (x *keptBatches[K, V]) keepOne(k K, v V, _ uint64) {
	x.c.K, x.c.V = append(x.c.K, k), append(x.c.V, v)
}

func (x *keptBatches[K, V]) pushTo(out *engine.KeyedNode[K, V]) {
	engine.PushEntries(out, x.c, &x.b)
	clear(x.c.K)
	clear(x.c.V)
	x.c = engine.Columns[K, V]{K: x.c.K[:0], V: x.c.V[:0]}
}
