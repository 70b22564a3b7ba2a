package operators

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
)

// KJoin returns what pair makes of each value of a and each value of b under the
// same key: each pair once, when the later of the two comes.
func KJoin[K comparable, V, W, U any](a *engine.KeyedNode[K, V], b *engine.KeyedNode[K, W], op *engine.Op, pair func(V, W) U) *engine.KeyedNode[K, U] {
	out := engine.NewKeyedNode[K, U](engine.Derived(op, a, b))
	m := engine.Remember(op, &out.Head)
	left, right := state.NewLists[K, V](m), state.NewLists[K, W](m)
	matchSide(a, out, op, left, right, pair)
	matchSide(b, out, op, right, left, func(w W, v V) U { return pair(v, w) })
	return out
}

// matchSide remembers the values of in, and pushes their pairs with what the other side has so far.
func matchSide[K comparable, V, W, U any](in *engine.KeyedNode[K, V], out *engine.KeyedNode[K, U], op *engine.Op, mine *state.Lists[K, V], other *state.Lists[K, W], pair func(V, W) U) {
	hash := engine.Hasher[K]()
	var hs []uint64
	var c engine.Columns[K, U]
	var o engine.Batch[K, U]
	op.Holds(&c)
	op.Scratch(&hs, &o)
	size := min(engine.BlockSize[K](), engine.BlockSize[U]())
	flush := func() {
		o = engine.Batch[K, U]{K: c.K, V: c.V, H: c.H}
		out.Push(&o)
		c = engine.Columns[K, U]{K: c.K[:0], V: c.V[:0], H: c.H[:0]}
	}
	in.To(func(b *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		hs := b.Hashes(hash, &hs)
		mine.Table.Touch(hs)
		other.Table.Touch(hs)
		for i, k := range b.K {
			mine.Add(k, hs[i], b.V[i])
			for n := other.First(k, hs[i]); n != 0; {
				x := other.Item(n)
				n = x.Next
				c.K, c.V, c.H = append(c.K, k), append(c.V, pair(b.V[i], x.V)), append(c.H, hs[i])
				if len(c.K) >= size {
					flush()
				}
			}
		}
		if len(c.K) > 0 {
			flush()
		}
	}).One = func(k K, v V, h uint64) {
		op.Loc.At = op.Index
		if h == 0 {
			h = hash.Hash(k)
		}
		mine.Add(k, h, v)
		n := other.First(k, h)
		if n == 0 {
			return
		}
		if x := other.Item(n); x.Next == 0 {
			out.One(k, pair(v, x.V), h)
			return
		}
		for n != 0 {
			x := other.Item(n)
			n = x.Next
			c.K, c.V, c.H = append(c.K, k), append(c.V, pair(v, x.V)), append(c.H, h)
			if len(c.K) >= size {
				flush()
			}
		}
		if len(c.K) > 0 {
			flush()
		}
	}
}

// KLookup returns, for each entry of left, what pair makes of its value and each value that right has under that value, or of the
// value alone if right has none. Both are in one region.
func KLookup[K, V comparable, W, U any](left *engine.KeyedNode[K, V], right *engine.KeyedNode[V, W], op *engine.Op, pair func(V, Found[W]) U) *engine.KeyedNode[K, U] {
	out := engine.NewKeyedNode[K, U](engine.InRegion(op, left, right))
	content := state.NewLists[V, W](engine.Remember(op, &out.Head))
	hash := engine.Hasher[V]()
	var hs []uint64
	right.To(func(b *engine.Batch[V, W]) {
		for i, h := range b.Hashes(hash, &hs) {
			content.Add(b.K[i], h, b.V[i])
		}
	}).One = func(k V, w W, h uint64) {
		if h == 0 {
			h = hash.Hash(k)
		}
		content.Add(k, h, w)
	}
	var c engine.Columns[K, U]
	var o engine.Batch[K, U]
	op.Holds(&c)
	op.Scratch(&hs, &o)
	deferred(left, op, false, func(b *engine.Batch[K, V]) {
		op.Enter() // a value may turn out not to be hashable
		for i, v := range b.V {
			n := content.First(v, hash.Hash(v))
			if n == 0 {
				c.K, c.V = append(c.K, b.K[i]), append(c.V, pair(v, Found[W]{}))
			}
			for n != 0 {
				x := content.Item(n)
				n = x.Next
				c.K, c.V = append(c.K, b.K[i]), append(c.V, pair(v, Found[W]{x.V, true}))
			}
		}
		engine.PushEntries(out, c, &o)
		c = engine.Columns[K, U]{K: c.K[:0], V: c.V[:0]}
	}, func(k K, v V, h uint64) {
		op.Enter()
		n := content.First(v, hash.Hash(v))
		if n == 0 {
			out.One(k, pair(v, Found[W]{}), h)
		}
		for n != 0 {
			x := content.Item(n)
			n = x.Next
			c.K, c.V = append(c.K, k), append(c.V, pair(v, Found[W]{x.V, true}))
		}
		engine.PushEntries(out, c, &o)
		c = engine.Columns[K, U]{K: c.K[:0], V: c.V[:0]}
	})
	return out
}

// KWithout returns the batches of in without the keys that are elements of keys. Either
// both are in one region, or keys is a constant.
func KWithout[K comparable, V any](in *engine.KeyedNode[K, V], keys *engine.Node[K], op *engine.Op) *engine.KeyedNode[K, V] {
	h := besideConstant(op, keys, in)
	out := engine.NewKeyedNode[K, V](h)
	out.Fresh, out.Lives, out.Revises, out.Forgets = in.Fresh, in.Lives, in.Revises, in.Forgets
	hash := engine.Hasher[K]()
	excluded := state.NewSet[K](engine.OfConstants(op, &h))
	keys.To(func(batch []K) {
		op.Loc.At = op.Index
		for _, k := range batch {
			excluded.Put(k, hash.Hash(k))
		}
	})
	if h.Region != nil {
		if in.Index != nil {
			out.Index = newView(in.Index, op, func(k K, v V) (V, bool) {
				return v, excluded.Get(k, hash.Hash(k)) == nil
			})
		}
	}
	var hs []uint64
	var c engine.Columns[K, V]
	var gone []bool
	var o engine.Batch[K, V]
	op.Scratch(&hs, &c, &gone, &o)
	deferred(in, op, h.Region == nil, func(b *engine.Batch[K, V]) {
		n, m := len(b.K), 0
		c.K, c.V, c.H, gone = engine.Resize(c.K, n), engine.Resize(c.V, n), engine.Resize(c.H, n), engine.Resize(gone, n)
		for i, h := range b.Hashes(hash, &hs) {
			if excluded.Get(b.K[i], h) != nil {
				continue
			}
			c.K[m], c.V[m], c.H[m] = b.K[i], b.V[i], h
			gone[m] = b.Gone != nil && b.Gone[i]
			m++
		}
		if m == 0 {
			return
		}
		o = engine.Batch[K, V]{K: c.K[:m], V: c.V[:m], H: c.H[:m]}
		if b.Gone != nil {
			o.Gone = gone[:m]
		}
		out.Push(&o)
	}, func(k K, v V, h uint64) {
		if h == 0 {
			h = hash.Hash(k)
		}
		if excluded.Get(k, h) == nil {
			out.One(k, v, h)
		}
	})
	return out
}

// KGet returns the value that in has under the value of key, if both exist. Both are in one region.
func KGet[K comparable, V any](in *engine.KeyedNode[K, V], key *engine.ValueNode[K], op *engine.Op) *engine.ValueNode[V] {
	h := engine.InRegion(op, in, key)
	content := IndexOf(in)
	out := engine.NewValueNode[V](h)
	hash := engine.Hasher[K]()
	h.Region.AtStep(func() {
		if !key.IsSet {
			return
		}
		op.Enter()
		if v, ok := content.Get(key.Value, hash.Hash(key.Value)); ok {
			out.Set(v)
		}
	})
	return out
}

// KMaxKey returns the entry with the largest key, once there is one.
func KMaxKey[K comparable, V, E any](in *engine.KeyedNode[K, V], op *engine.Op, less func(a, b K) bool, entry func(K, V) E) *engine.ValueNode[E] {
	h := engine.Derived(op, in)
	out := engine.NewValueNode[E](h)
	m := engine.Remember(op, &h)
	max, value, found := state.NewVar(m, *new(K)), state.NewVar(m, *new(V)), state.NewVar(m, false)
	look := func(b *engine.Batch[K, V]) (better bool) {
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
	if h.Region == nil {
		in.To(func(b *engine.Batch[K, V]) {
			if look(b) {
				out.Set(entry(*max, *value))
			}
		}).One = func(k K, v V, _ uint64) {
			if lookOne(k, v) {
				out.Set(entry(k, v))
			}
		}
		return out
	}
	in.To(func(b *engine.Batch[K, V]) { look(b) }).One = func(k K, v V, _ uint64) { lookOne(k, v) }
	h.Region.AtStep(func() {
		if *found {
			out.Set(entry(*max, *value))
		}
	})
	return out
}

// KPick returns the values that in has under the value of key. Either both are in one
// region, or key is a constant.
func KPick[K comparable, V any](in *engine.KeyedNode[K, V], key *engine.ValueNode[K], op *engine.Op) *engine.Node[V] {
	h, ready := engine.Beside(op, in, &key.Head)
	out := engine.NewNode[V](h)
	var vs []V
	op.Holds(&vs)
	deferred(in, op, ready, func(b *engine.Batch[K, V]) {
		if !key.IsSet {
			return
		}
		for i, k := range b.K {
			if k == key.Value {
				vs = append(vs, b.V[i])
			}
		}
		if len(vs) > 0 {
			out.Push(vs)
			clear(vs)
			vs = vs[:0]
		}
	}, func(k K, v V, _ uint64) {
		if key.IsSet && k == key.Value {
			out.One(v)
		}
	})
	return out
}
