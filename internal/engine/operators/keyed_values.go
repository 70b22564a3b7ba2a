package operators

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// KFlatMap returns everything that f emits for each value, under its key.
func KFlatMap[K comparable, V, U any](in *engine.KeyedNode[K, V], op *engine.Op, f func(V, func(U))) *engine.KeyedNode[K, U] {
	out := engine.NewKeyedNode[K, U](engine.Derived(op, in))
	size := min(engine.BlockSize[K](), engine.BlockSize[U]())
	var c engine.Columns[K, U]
	var key K
	var o engine.Batch[K, U]
	op.Holds(&c)
	op.Scratch(&key, &o)
	flush := func() {
		o = engine.Batch[K, U]{K: c.K, V: c.V}
		out.Push(&o)
		c = engine.Columns[K, U]{K: c.K[:0], V: c.V[:0]}
		op.Enter() // f continues
	}
	emit := func(u U) {
		if c.K, c.V = append(c.K, key), append(c.V, u); len(c.K) >= size {
			flush()
		}
	}
	consumer, cur := track(op, in, func(b *engine.Batch[K, V]) {
		for i, k := range b.K {
			op.At, key = i, k
			f(b.V[i], emit)
		}
		if len(c.K) > 0 {
			flush()
		}
	})
	var es emissions[K, U]
	op.Scratch(&es)
	add := es.add
	consumer.One = func(k K, v V, h uint64) {
		cur.enter(k)
		if f(v, add); es.any {
			es.pushTo(out, k, h)
		}
	}
	return out
}

// KSort returns the values of a region, with those of each key in the order of compare. The sort is stable.
func KSort[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op, compare func(a, b V) int) *engine.KeyedNode[K, V] {
	type row struct {
		k K
		v V
	}
	h := engine.InRegion(op, in)
	out := engine.NewKeyedNode[K, V](h)
	var rows []row
	var c engine.Columns[K, V]
	var o engine.Batch[K, V]
	op.Holds(&rows, &c)
	op.Scratch(&o)
	in.To(func(b *engine.Batch[K, V]) {
		for i, k := range b.K {
			rows = append(rows, row{k, b.V[i]})
		}
	}).One = func(k K, v V, _ uint64) { rows = append(rows, row{k, v}) }
	h.Region.AtStep(func() {
		op.Enter()
		slices.SortStableFunc(rows, func(a, b row) int { return compare(a.v, b.v) })
		for _, r := range rows {
			c.K, c.V = append(c.K, r.k), append(c.V, r.v)
		}
		clear(rows)
		rows = rows[:0]
		engine.PushEntries(out, c, &o)
		engine.ClearEntries(&c)
	})
	return out
}

// KRekey returns each value under the key that f gives it.
func KRekey[K, J comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op, f func(K, V) J) *engine.KeyedNode[J, V] {
	out := engine.NewKeyedNode[J, V](engine.Derived(op, in))
	op.Rekeys()
	check := engine.MadeKeys[J](op)
	var js []J
	var o engine.Batch[J, V]
	op.Scratch(&js, &o)
	consumer, cur := track(op, in, func(b *engine.Batch[K, V]) {
		js = engine.Resize(js, len(b.K))
		for i, k := range b.K {
			op.At = i
			if js[i] = f(k, b.V[i]); check != nil {
				check(js[i : i+1])
			}
		}
		o = engine.Batch[J, V]{K: js, V: b.V}
		out.Push(&o)
	})
	consumer.One = func(k K, v V, _ uint64) {
		cur.enter(k)
		j := f(k, v)
		if check != nil {
			j = engine.CheckMade(check, j)
		}
		out.One(j, v, 0)
	}
	return out
}

// KFork returns, under their keys, the first result of f for each value for which the third is true, and the second result for
// the others. If values are revised, an entry can move from one to the other.
func KFork[K comparable, V, U, W any](in *engine.KeyedNode[K, V], op *engine.Op, f func(V) (U, W, bool)) (*engine.KeyedNode[K, U], *engine.KeyedNode[K, W]) {
	yes := seen(in, op, func(_ K, v V) (U, bool) { u, _, ok := f(v); return u, ok })
	no := seen(in, op, func(_ K, v V) (W, bool) { _, w, ok := f(v); return w, !ok })
	if yes.Region == nil {
		yes.Index, no.Index = nil, nil // see KFilterMap
	}
	var y engine.Columns[K, U]
	var n engine.Columns[K, W]
	var ygone, ngone []bool
	var yb engine.Batch[K, U]
	var nb engine.Batch[K, W]
	op.Scratch(&y, &n, &ygone, &ngone, &yb, &nb)
	consumer, cur := track(op, in, func(b *engine.Batch[K, V]) {
		y.K, y.V, ygone = y.K[:0], y.V[:0], ygone[:0]
		n.K, n.V, ngone = n.K[:0], n.V[:0], ngone[:0]
		for i, k := range b.K {
			op.At = i
			gone := b.Gone != nil && b.Gone[i]
			var u U
			var w W
			var ok bool
			if !gone {
				u, w, ok = f(b.V[i])
			}
			moves := in.Revises && (gone || !in.Forgets) // otherwise it was not present before
			if moves || ok {
				y.K, y.V, ygone = append(y.K, k), append(y.V, u), append(ygone, !ok)
			}
			if moves || !ok {
				n.K, n.V, ngone = append(n.K, k), append(n.V, w), append(ngone, ok || gone)
			}
		}
		yb, nb = engine.Batch[K, U]{K: y.K, V: y.V}, engine.Batch[K, W]{K: n.K, V: n.V}
		if in.Revises {
			yb.H, yb.Gone, nb.H, nb.Gone = b.H, ygone, b.H, ngone
		}
		if len(y.K) > 0 {
			yes.Push(&yb)
		}
		if len(n.K) > 0 {
			no.Push(&nb)
		}
	})
	consumer.Gone = func() bool { return yes.WantsGone() || no.WantsGone() }
	if in.Revises && !in.Forgets {
		return yes, no // an entry that moves from one to the other is removed there
	}
	consumer.One = func(k K, v V, h uint64) {
		cur.enter(k)
		if u, w, ok := f(v); ok {
			yes.One(k, u, h)
		} else {
			no.One(k, w, h)
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
func KUnique[K, V comparable](in *engine.KeyedNode[K, V], op *engine.Op) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](engine.Derived(op, in))
	known := state.NewTable(engine.Remember(op, &out.Head), bothCodec[K, V], state.Nothing)
	hash, positive := engine.Hasher[both[K, V]](), keyed.PositiveOf[V]()
	var c engine.Columns[K, V]
	var o engine.Batch[K, V]
	op.Scratch(&c, &o)
	in.To(func(b *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		c.K, c.V = c.K[:0], c.V[:0]
		for i, k := range b.K {
			x := both[K, V]{k, b.V[i]}
			if positive != nil {
				x.v = positive(x.v)
			}
			if _, added := known.Put(x, hash.Hash(x)); added {
				c.K, c.V = append(c.K, x.k), append(c.V, x.v)
			}
		}
		if len(c.K) > 0 {
			o = engine.Batch[K, V]{K: c.K, V: c.V}
			out.Push(&o)
		}
	}).One = func(k K, v V, h uint64) {
		op.Loc.At = op.Index
		if positive != nil {
			v = positive(v)
		}
		if _, _, added := known.PutOne(hash, both[K, V]{k, v}, 0); added {
			out.One(k, v, h)
		}
	}
	return out
}

// KStep returns the values that f returned with true. f gets the state of the value's key, which starts as a zero S.
func KStep[K comparable, V, S, U any](in *engine.KeyedNode[K, V], op *engine.Op, f func(*S, V) (U, bool)) *engine.KeyedNode[K, U] {
	out := engine.NewKeyedNode[K, U](engine.Derived(op, in))
	table := state.NewTable(engine.Remember(op, &out.Head), state.Plain[K], state.Plain[S])
	hash := engine.Hasher[K]()
	var hs []uint64
	var c engine.Columns[K, U]
	var o engine.Batch[K, U]
	op.Scratch(&hs, &c, &o)
	in.To(func(b *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		n := len(b.K)
		hs := b.Hashes(hash, &hs)[:n]
		table.Touch(hs)
		c.K, c.V, c.H = engine.Resize(c.K, n), engine.Resize(c.V, n), engine.Resize(c.H, n)
		vs, m := b.V[:n], 0
		for i, k := range b.K {
			s, _ := table.Put(k, hs[i])
			u, ok := f(s, vs[i])
			c.K[m], c.V[m], c.H[m] = k, u, hs[i]
			if ok {
				m++
			}
		}
		if m > 0 {
			o = engine.Batch[K, U]{K: c.K[:m], V: c.V[:m], H: c.H[:m]}
			out.Push(&o)
		}
	}).One = func(k K, v V, h uint64) {
		op.Loc.At = op.Index
		s, h, _ := table.PutOne(hash, k, h)
		if u, ok := f(s, v); ok {
			out.One(k, u, h)
		}
	}
	return out
}

// KReduce is KFold for an aggregate that starts from a key's first value.
func KReduce[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op, step func(*V, V)) *engine.KeyedNode[K, V] {
	first := false
	op.Scratch(&first)
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

// KExtreme is KReduce for a function that picks one of two values. At the top level a value is passed on only if another one was
// picked, so a repeat has no effect.
func KExtreme[K, V comparable](in *engine.KeyedNode[K, V], op *engine.Op, pick func(acc, v V) V) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](engine.Derived(op, in))
	t := &index[K, V]{table: state.NewTable(engine.Remember(op, &out.Head), state.Plain[K], state.Plain[V])}
	op.Scratch(&t.buffer)
	streaming := out.Region == nil
	if streaming {
		out.Index, out.Revises = t, true
	} else {
		out.Region.AtStep(func() { t.Each(out.Push) })
	}
	hash, bits := engine.Hasher[K](), keyed.BitsOf[V]()
	var hs []uint64
	var c engine.Columns[K, V]
	var o engine.Batch[K, V]
	op.Holds(&c)
	op.Scratch(&hs, &o)
	in.To(func(b *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		hs := b.Hashes(hash, &hs)
		t.table.Touch(hs)
		for i, k := range b.K {
			p, added := t.table.Put(k, hs[i])
			old := *p
			if *p = b.V[i]; !added {
				*p = pick(old, b.V[i])
			}
			if streaming && (added || *p != old || bits != nil && bits(*p) != bits(old)) {
				c.K, c.V, c.H = append(c.K, k), append(c.V, *p), append(c.H, hs[i])
			}
		}
		if len(c.K) > 0 {
			o = engine.Batch[K, V]{K: c.K, V: c.V, H: c.H}
			out.Push(&o)
			c = engine.Columns[K, V]{K: c.K[:0], V: c.V[:0], H: c.H[:0]}
			t.Changed()
		}
	}).One = func(k K, v V, h uint64) {
		op.Loc.At = op.Index
		p, h, added := t.table.PutOne(hash, k, h)
		old := *p
		if *p = v; !added {
			*p = pick(old, v)
		}
		if streaming && (added || *p != old || bits != nil && bits(*p) != bits(old)) {
			out.One(k, *p, h)
			t.Changed()
		}
	}
	return out
}

// bothCodec returns the codec of a key and a value that together are a key.
func bothCodec[K, V comparable](op *engine.Op) codec.Of[both[K, V]] {
	k, v := state.Plain[K](op), state.Plain[V](op)
	return codec.Of[both[K, V]]{
		Kind: "both " + k.Kind + " " + v.Kind,
		Save: func(dst []byte, c codec.Codec, x *both[K, V]) ([]byte, error) {
			dst, err := k.Save(dst, c, &x.k)
			if err != nil {
				return dst, err
			}
			return v.Save(dst, c, &x.v)
		},
		Load: func(d *codec.Decoder, c codec.Codec, x *both[K, V]) {
			k.Load(d, c, &x.k)
			v.Load(d, c, &x.v)
		},
	}
}
