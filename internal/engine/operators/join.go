package operators

import "github.com/millrace/millrace/internal/engine"

// A Found is the result of a lookup: a value, if there was one.
type Found[V any] struct {
	Value V
	OK    bool
}

// deferred calls f with the batches of n: at once if what f reads is ready before any batch, otherwise when all inputs of the
// region have been pushed.
func deferred[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op, ready bool, f func(*engine.Batch[K, V]), one func(K, V, uint64)) {
	if ready {
		n.To(f).One = one
		return
	}
	var c engine.Columns[K, V]
	var b engine.Batch[K, V]
	hash := engine.Hasher[K]()
	var hs []uint64
	op.Holds(&c)
	op.Scratch(&b, &hs)
	n.To(func(b *engine.Batch[K, V]) {
		c.K, c.V = append(c.K, b.K...), append(c.V, b.V...)
		c.H = append(c.H, b.Hashes(hash, &hs)...)
	}).One = func(k K, v V, h uint64) {
		if h == 0 {
			h = hash.Hash(k)
		}
		c.K, c.V, c.H = append(c.K, k), append(c.V, v), append(c.H, h)
	}
	each := &engine.KeyedNode[K, V]{Push: f, One: one}
	n.Region.AtStep(func() {
		engine.PushEntries(each, c, &b)
		clear(c.K)
		clear(c.V)
		c = engine.Columns[K, V]{K: c.K[:0], V: c.V[:0], H: c.H[:0]}
	})
}

// Join returns, for each element of left whose key is in right, what pair makes of the two values. Both are in one region.
func Join[K comparable, V, W, U any](left *engine.KeyedNode[K, V], right *engine.KeyedNode[K, W], op *engine.Op, pair func(V, W) U) *engine.KeyedNode[K, U] {
	h := engine.InRegion(op, left, right)
	content := IndexOf(right)
	ready := right.Ready
	out := engine.NewKeyedNode[K, U](h)
	out.Fresh = left.Fresh
	hash := engine.Hasher[K]()
	var hs []uint64
	var at []*W
	var c engine.Columns[K, U]
	var o engine.Batch[K, U]
	op.Scratch(&hs, &at, &c, &o)
	deferred(left, op, ready, func(b *engine.Batch[K, V]) {
		hs := b.Hashes(hash, &hs)
		n := len(hs)
		ks, vs := b.K[:n], b.V[:n]
		at, c.V = engine.Resize(at, n), engine.Resize(c.V, n)
		us, m := c.V[:n], 0
		switch content.Find(ks, hs, at) {
		case 0:
			return
		case n: // the usual case: keys and hashes stay as they are
			for i, w := range at {
				us[i] = pair(vs[i], *w)
			}
			o = engine.Batch[K, U]{K: ks, V: us, H: hs}
		default:
			c.K, c.H = engine.Resize(c.K, n), engine.Resize(c.H, n)
			for i, w := range at {
				if w != nil {
					c.K[m], us[m], c.H[m] = ks[i], pair(vs[i], *w), hs[i]
					m++
				}
			}
			o = engine.Batch[K, U]{K: c.K[:m], V: us[:m], H: c.H[:m]}
		}
		clear(at) // keeps no old table alive
		out.Push(&o)
	}, func(k K, v V, h uint64) {
		if h == 0 {
			h = hash.Hash(k)
		}
		if w, ok := content.Get(k, h); ok {
			out.One(k, pair(v, w), h)
		}
	})
	return out
}

// Lookup returns, for each entry of left, what pair makes of its value and what right has under that value. Both are in one
// region.
func Lookup[K, V comparable, W, U any](left *engine.KeyedNode[K, V], right *engine.KeyedNode[V, W], op *engine.Op, pair func(V, Found[W]) U) *engine.KeyedNode[K, U] {
	h := engine.InRegion(op, left, right)
	content := IndexOf(right)
	ready := right.Ready
	out := engine.NewKeyedNode[K, U](h)
	out.Fresh = left.Fresh
	hash := engine.Hasher[V]()
	var hs []uint64
	var at []*W
	var us []U
	var o engine.Batch[K, U]
	op.Scratch(&hs, &at, &us, &o)
	deferred(left, op, ready, func(b *engine.Batch[K, V]) {
		op.Enter() // a value may turn out not to be hashable
		n := len(b.V)
		hs, at, us = engine.Resize(hs, n), engine.Resize(at, n), engine.Resize(us, n)
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
		o = engine.Batch[K, U]{K: b.K, V: us, H: b.H}
		out.Push(&o)
	}, func(k K, v V, h uint64) {
		op.Enter()
		w, ok := content.Get(v, hash.Hash(v))
		out.One(k, pair(v, Found[W]{w, ok}), h)
	})
	return out
}

// Cross returns what pair makes of each element and the value of c.
func Cross[T, W, U any](in *engine.Node[T], c *engine.ValueNode[W], op *engine.Op, pair func(T, W) U) *engine.Node[U] {
	h, ready := engine.Beside(op, in, &c.Head)
	out := engine.NewNode[U](h)
	var buf []U
	op.Scratch(&buf)
	f := func(batch []T) {
		if !c.IsSet {
			return
		}
		buf = engine.Resize(buf, len(batch))
		for i, x := range batch {
			buf[i] = pair(x, c.Value)
		}
		out.Push(buf)
	}
	if ready {
		in.To(f)
		return out
	}
	var kept []T
	op.Holds(&kept)
	each := &engine.Node[T]{Push: f, One: engine.SingleAsBatch(f)}
	in.To(func(batch []T) { kept = append(kept, batch...) })
	h.Region.AtStep(func() {
		engine.PushBlocks(each, kept)
		clear(kept)
		kept = kept[:0]
	})
	return out
}

// KCross returns what pair makes of each value and the value of c, under its key.
func KCross[K comparable, V, W, U any](in *engine.KeyedNode[K, V], c *engine.ValueNode[W], op *engine.Op, pair func(V, W) U) *engine.KeyedNode[K, U] {
	h, ready := engine.Beside(op, in, &c.Head)
	out := engine.NewKeyedNode[K, U](h)
	out.Fresh, out.Lives, out.Revises, out.Forgets = in.Fresh, in.Lives, in.Revises, in.Forgets
	var us []U
	var o engine.Batch[K, U]
	op.Scratch(&us, &o)
	deferred(in, op, ready, func(b *engine.Batch[K, V]) {
		if !c.IsSet {
			return
		}
		us = engine.Resize(us, len(b.V))
		for i, v := range b.V {
			us[i] = pair(v, c.Value)
		}
		o = engine.Batch[K, U]{K: b.K, V: us, H: b.H, Gone: b.Gone}
		out.Push(&o)
	}, func(k K, v V, h uint64) {
		if c.IsSet {
			out.One(k, pair(v, c.Value), h)
		}
	})
	return out
}
