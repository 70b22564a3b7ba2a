package operators

import (
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
)

// EmitValue returns at the top level the value that c had in the newest run of its slice, if any. If init is not nil, the result
// has that value before the first run.
func EmitValue[T any](c *engine.ValueNode[T], op *engine.Op, init *T) *engine.ValueNode[T] {
	r := slice(op, &c.Head)
	out := engine.NewValueNode[T](r.Outside())
	if init != nil {
		r.Loc.Starts.AtStep(func() { out.Set(*init) })
	}
	r.AtStep(func() {
		if r.Loc.Graph.Settings.Watch != nil {
			r.Show(op, c.IsSet, c.Value)
		}
		if c.IsSet {
			out.Set(c.Value)
		} else {
			out.Unset()
		}
	})
	return out
}

// BatchStream lets what is new in n since the previous cut into the slice.
func BatchStream[T any](r *engine.Region, n *engine.Node[T], op *engine.Op) *engine.Node[T] {
	out := engine.NewNode[T](r.Inside(op.Name, n, false))
	r.Reasons = append(r.Reasons, op)
	var fresh []T
	op.Holds(&fresh)
	n.Consume(&engine.Consumer[T]{Push: func(batch []T) {
		r.News = true
		fresh = append(fresh, batch...)
	}, One: func(x T) {
		r.News = true
		fresh = append(fresh, x)
	}})
	r.AtStep(func() {
		engine.PushBlocks(out, fresh)
		clear(fresh)
		fresh = fresh[:0]
	})
	return out
}

// BatchKeyed lets what is new in n since the previous cut into the slice. entries says that n is
// a keyed singleton with fixed values, so that its keys are fresh.
func BatchKeyed[K comparable, V any](r *engine.Region, n *engine.KeyedNode[K, V], op *engine.Op, entries bool) *engine.KeyedNode[K, V] {
	if n.Forgets {
		return batchLives(r, n, op)
	}
	out := engine.NewKeyedNode[K, V](r.Inside(op.Name, n, false))
	out.Fresh = entries
	r.Reasons = append(r.Reasons, op)
	var fresh engine.Columns[K, V]
	var b engine.Batch[K, V]
	hash := engine.Hasher[K]()
	var hs []uint64
	op.Holds(&fresh)
	op.Scratch(&b, &hs)
	n.To(func(b *engine.Batch[K, V]) {
		r.News = true
		fresh.K, fresh.V = append(fresh.K, b.K...), append(fresh.V, b.V...)
		fresh.H = append(fresh.H, b.Hashes(hash, &hs)...)
	}).One = func(k K, v V, h uint64) {
		if h == 0 {
			h = hash.Hash(k)
		}
		r.News = true
		fresh.K, fresh.V, fresh.H = append(fresh.K, k), append(fresh.V, v), append(fresh.H, h)
	}
	r.AtStep(func() {
		engine.PushEntries(out, fresh, &b)
		clear(fresh.K)
		clear(fresh.V)
		fresh = engine.Columns[K, V]{K: fresh.K[:0], V: fresh.V[:0], H: fresh.H[:0]}
	})
	return out
}

// Snapshot lets the value of c at the cut into the slice. A constant never has news, so it does
// not count as an input that runs the slice.
func Snapshot[T any](r *engine.Region, c *engine.ValueNode[T], op *engine.Op) *engine.ValueNode[T] {
	out := engine.NewValueNode[T](r.Inside(op.Name, c, true))
	r.Reasons = append(r.Reasons, op)
	out.Trigger = &engine.Trigger{Region: r}
	if c.Region == nil {
		c.Changed(out.Trigger.Pull)
	} else {
		out.Trigger.Disarm()
	}
	set := engine.CheckedInSlice(r, c, out.Set)
	r.AtPre(func() {
		if c.IsSet {
			set(c.Value)
		}
	})
	return out
}

// SnapshotEntries lets the content of n at the cut into the slice. It is borrowed: taking it costs nothing, and only a reader of
// all of it pays for all of it.
func SnapshotEntries[K comparable, V any](r *engine.Region, n *engine.KeyedNode[K, V], op *engine.Op) *engine.KeyedNode[K, V] {
	content := IndexOf(n)
	out := engine.NewKeyedNode[K, V](r.Inside(op.Name, n, true))
	r.Reasons = append(r.Reasons, op)
	out.Index = content
	out.Trigger = &engine.Trigger{Region: r}
	content.Watch(out.Trigger.Pull)
	r.AtStep(func() {
		if len(out.Outs) > 0 {
			content.Each(out.Push)
		}
	})
	return out
}

// State carries a value from one run of the slice to the next: value is the value in this run, and keep sets the node that gives
// the next one.
func State[T any](r *engine.Region, op *engine.Op, init T) (value *engine.ValueNode[T], keep func(next *engine.ValueNode[T])) {
	value = engine.NewValueNode[T](r.Own())
	current := state.NewVar(engine.Lasting(op), init)
	r.AtPre(func() { value.Set(*current) })
	kept := false
	return value, func(next *engine.ValueNode[T]) {
		if kept {
			engine.Misuse(op.Name, "the next value was given before")
		}
		kept = true
		op.Again()
		engine.Same(op.Name, value, next)
		var after T
		given := false // next may be set before value is, if it is another state
		op.Scratch(&after, &given)
		next.To(func(v T) {
			if r.Loc.Graph.Settings.Watch != nil && digest.Of(v) != digest.Of(*current) {
				r.Show(op, nil, v)
			}
			after, given = v, true
		})
		r.AtEnd(func() {
			if given {
				*current, given = after, false
			}
		})
	}
}

// EmitStream lets the elements of n out of its slice.
func EmitStream[T any](n *engine.Node[T], op *engine.Op) *engine.Node[T] {
	out := engine.NewNode[T](slice(op, &n.Head).Outside())
	n.Consume(&engine.Consumer[T]{Push: func(batch []T) {
		if n.Loc.Graph.Settings.Watch != nil {
			for _, x := range batch {
				n.Region.Show(op, nil, x)
			}
		}
		out.Push(batch)
	}, One: func(x T) {
		if n.Loc.Graph.Settings.Watch != nil {
			n.Region.Show(op, nil, x)
		}
		out.One(x)
	}})
	return out
}

// EmitKeyed lets the elements of n out of its slice.
func EmitKeyed[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](slice(op, &n.Head).Outside())
	n.To(func(b *engine.Batch[K, V]) {
		if n.Loc.Graph.Settings.Watch != nil {
			for i, k := range b.K {
				n.Region.Show(op, k, b.V[i])
			}
		}
		out.Push(b)
	}).One = func(k K, v V, h uint64) {
		if n.Loc.Graph.Settings.Watch != nil {
			n.Region.Show(op, k, v)
		}
		out.One(k, v, h)
	}
	return out
}

// slice returns the slice that contains a node.
func slice(op *engine.Op, h *engine.Head) *engine.Region {
	if h.Region == nil || h.Region.Name == "" {
		engine.Misuse(op.Name, "the collection is not inside a slice")
	}
	h.Loc.Reads(h)
	return h.Region
}

// ValueMap returns f of the value.
func ValueMap[T, U any](c *engine.ValueNode[T], op *engine.Op, f func(T) U) *engine.ValueNode[U] {
	out := engine.NewValueNode[U](engine.Same(op.Name, c))
	c.To(func(v T) {
		op.Enter()
		out.Set(f(v))
	})
	return out
}

// ValueZip returns what pair makes of two values, once both exist.
func ValueZip[T, W, U any](a *engine.ValueNode[T], b *engine.ValueNode[W], op *engine.Op, pair func(T, W) U) *engine.ValueNode[U] {
	out := engine.NewValueNode[U](engine.Same(op.Name, a, b))
	join := func() {
		if a.IsSet && b.IsSet {
			out.Set(pair(a.Value, b.Value))
		}
	}
	a.To(func(T) { join() })
	b.To(func(W) { join() })
	return out
}

// ValueStream returns the value of a value node in a region as a stream of one element.
func ValueStream[T any](c *engine.ValueNode[T], op *engine.Op) *engine.Node[T] {
	h := engine.InRegion(op, c)
	out := engine.NewNode[T](h)
	var one [1]T
	op.Scratch(&one)
	h.Region.AtStep(func() {
		if c.IsSet {
			one[0] = c.Value
			out.Push(one[:])
		}
	})
	return out
}
