package engine

import "github.com/millrace/millrace/internal/digest"

// BatchStream lets into the slice what is new in n since the previous cut.
func BatchStream[T any](r *Region, n *Node[T], op *Op) *Node[T] {
	out := NewNode[T](r.Inside(op.Name, n, false))
	r.reasons = append(r.reasons, op)
	var fresh []T
	op.holds(&fresh)
	n.to(&consumer[T]{push: func(batch []T) {
		r.news = true
		fresh = append(fresh, batch...)
	}, one: func(x T) {
		r.news = true
		fresh = append(fresh, x)
	}})
	r.atStep(func() {
		pushBlocks(out, fresh)
		clear(fresh)
		fresh = fresh[:0]
	})
	return out
}

// BatchKeyed lets into the slice what is new in n since the previous cut. If n is a
// keyed singleton with fixed values, entries, then its keys are fresh.
func BatchKeyed[K comparable, V any](r *Region, n *KNode[K, V], op *Op, entries bool) *KNode[K, V] {
	out := NewKNode[K, V](r.Inside(op.Name, n, false))
	out.fresh = entries
	r.reasons = append(r.reasons, op)
	var fresh columns[K, V]
	var b Batch[K, V]
	hash := hasher[K]()
	var hs []uint64
	op.holds(&fresh)
	op.scratch(&b, &hs)
	n.To(func(b *Batch[K, V]) {
		r.news = true
		fresh.k, fresh.v = append(fresh.k, b.K...), append(fresh.v, b.V...)
		fresh.h = append(fresh.h, b.hashes(hash, &hs)...)
	}).one = func(k K, v V, h uint64) {
		if h == 0 {
			h = hash.Hash(k)
		}
		r.news = true
		fresh.k, fresh.v, fresh.h = append(fresh.k, k), append(fresh.v, v), append(fresh.h, h)
	}
	r.atStep(func() {
		fresh.pushBlocks(out, &b)
		clear(fresh.k)
		clear(fresh.v)
		fresh = columns[K, V]{fresh.k[:0], fresh.v[:0], fresh.h[:0]}
	})
	return out
}

// Snapshot lets into the slice the value of c at the cut. A constant is no news, so
// it does not count as an input that runs the slice.
func Snapshot[T any](r *Region, c *Cell[T], op *Op) *Cell[T] {
	out := NewCell[T](r.Inside(op.Name, c, true))
	r.reasons = append(r.reasons, op)
	out.trigger = &trigger{region: r}
	if c.region == nil {
		c.changed(out.trigger.pull)
	} else {
		out.trigger.disarm()
	}
	r.atPre(func() {
		if c.set {
			out.Set(c.value)
		}
	})
	return out
}

// SnapshotEntries lets into the slice the content of n at the cut. It is borrowed:
// taking it costs nothing, and only who asks for all of it pays for all of it.
func SnapshotEntries[K comparable, V any](r *Region, n *KNode[K, V], op *Op) *KNode[K, V] {
	content := n.Live()
	out := NewKNode[K, V](r.Inside(op.Name, n, true))
	r.reasons = append(r.reasons, op)
	out.live = content
	out.trigger = &trigger{region: r}
	content.Watch(out.trigger.pull)
	r.atStep(func() {
		if len(out.outs) > 0 {
			content.Each(out.push)
		}
	})
	return out
}

// State carries a value from one run of the slice to the next: the cell has it in
// this run, and keep says which cell gives the next.
func State[T any](r *Region, op *Op, init T) (value *Cell[T], keep func(next *Cell[T])) {
	value = NewCell[T](r.Own())
	current := newVar(lasting(op), init)
	r.atPre(func() { value.Set(*current) })
	kept := false
	return value, func(next *Cell[T]) {
		if kept {
			Misuse(op.Name, "the next value was given before")
		}
		kept = true
		op.again()
		Same(op.Name, value, next)
		var after T
		given := false // next may be there before value is, as another state is
		op.scratch(&after, &given)
		next.To(func(v T) {
			if r.site.g.set.Watch != nil && digest.Of(v) != digest.Of(*current) {
				r.show(op, nil, v)
			}
			after, given = v, true
		})
		r.atEnd(func() {
			if given {
				*current, given = after, false
			}
		})
	}
}

// EmitStream lets the elements of n out of its slice.
func EmitStream[T any](n *Node[T], op *Op) *Node[T] {
	out := NewNode[T](slice(op, &n.Head).Outside())
	n.to(&consumer[T]{push: func(batch []T) {
		if n.site.g.set.Watch != nil {
			for _, x := range batch {
				n.region.show(op, nil, x)
			}
		}
		out.push(batch)
	}, one: func(x T) {
		if n.site.g.set.Watch != nil {
			n.region.show(op, nil, x)
		}
		out.one(x)
	}})
	return out
}

// EmitKeyed lets the elements of n out of its slice.
func EmitKeyed[K comparable, V any](n *KNode[K, V], op *Op) *KNode[K, V] {
	out := NewKNode[K, V](slice(op, &n.Head).Outside())
	n.To(func(b *Batch[K, V]) {
		if n.site.g.set.Watch != nil {
			for i, k := range b.K {
				n.region.show(op, k, b.V[i])
			}
		}
		out.push(b)
	}).one = func(k K, v V, h uint64) {
		if n.site.g.set.Watch != nil {
			n.region.show(op, k, v)
		}
		out.one(k, v, h)
	}
	return out
}

// slice returns the slice that a node is in.
func slice(op *Op, h *Head) *Region {
	if h.region == nil || h.region.name == "" {
		Misuse(op.Name, "the collection is not inside a slice")
	}
	h.site.reads(h)
	return h.region
}

// CellMap returns f of the value.
func CellMap[T, U any](c *Cell[T], op *Op, f func(T) U) *Cell[U] {
	out := NewCell[U](Same(op.Name, c))
	c.To(func(v T) {
		op.enter()
		out.Set(f(v))
	})
	return out
}

// CellZip returns what pair makes of two values, once both are there.
func CellZip[T, W, U any](a *Cell[T], b *Cell[W], op *Op, pair func(T, W) U) *Cell[U] {
	out := NewCell[U](Same(op.Name, a, b))
	join := func() {
		if a.set && b.set {
			out.Set(pair(a.value, b.value))
		}
	}
	a.To(func(T) { join() })
	b.To(func(W) { join() })
	return out
}

// CellStream returns the value of a cell in a region as a stream of one element.
func CellStream[T any](c *Cell[T], op *Op) *Node[T] {
	h := inRegion(op, c)
	out := NewNode[T](h)
	var one [1]T
	op.scratch(&one)
	h.region.atStep(func() {
		if c.set {
			one[0] = c.value
			out.push(one[:])
		}
	})
	return out
}
