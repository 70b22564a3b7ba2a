package engine

import "cmp"

// Reduce returns the running aggregate of a stream that starts from its first
// element: after each batch at the top level, at its end inside a region. Without an
// element there is none.
func Reduce[T any](in *Node[T], op *Op, step func(*T, T)) *Cell[T] {
	out := NewCell[T](derived(op, in))
	acc := newBegun[T](remember(op, &out.Head))
	reduce := func(batch []T) {
		op.enter()
		if !acc.some {
			acc.some, acc.value, batch = true, batch[0], batch[1:]
		}
		for _, x := range batch {
			step(&acc.value, x)
		}
	}
	if out.region == nil {
		in.To(func(batch []T) { reduce(batch); out.Set(acc.value) })
		return out
	}
	in.To(reduce)
	out.region.atStep(func() {
		if acc.some {
			out.Set(acc.value)
		}
	})
	return out
}

// Extreme is Reduce for a function that picks one of two elements. At the top level
// the cell is set only when another one was picked, so that a repeat shows nowhere.
func Extreme[T cmp.Ordered](in *Node[T], op *Op, pick func(T, T) T) *Cell[T] {
	all := Reduce(in, op, func(acc *T, x T) { *acc = pick(*acc, x) })
	if all.region != nil {
		return all
	}
	out := NewCell[T](all.Head)
	all.To(func(x T) {
		if !out.set || out.value != x {
			out.Set(x)
		}
	})
	return out
}
