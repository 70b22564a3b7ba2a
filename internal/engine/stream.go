package engine

// Map returns f of each element.
func Map[T, U any](in *Node[T], op *Op, f func(T) U) *Node[U] {
	out := NewNode[U](derived(op, in))
	var buf []U
	op.scratch(&buf)
	c := &consumer[T]{
		push: func(batch []T) {
			op.site.at = op.index // op.enter(): a caller in another package would not inline that
			buf = resize(buf, len(batch))
			o := buf[:len(batch)] // the compiler sees that o[i] is in bounds
			for i, x := range batch {
				o[i] = f(x)
			}
			out.push(o)
		},
		one: func(x T) {
			op.site.at = op.index
			out.one(f(x))
		},
	}
	if g, ok := any(f).(func(T) T); ok {
		c.step = step[T]{op: op, mapped: g, out: any(out).(*Node[T])}
	}
	op.site.compiled(func() { fuse(c, op, f, out) })
	in.to(c)
	return out
}

// MapRef is Map for elements that are dear to copy.
func MapRef[T, U any](in *Node[T], op *Op, f func(*T) U) *Node[U] {
	out := NewNode[U](derived(op, in))
	var buf []U
	op.scratch(&buf)
	in.To(func(batch []T) {
		op.site.at = op.index
		buf = resize(buf, len(batch))
		o := buf[:len(batch)]
		for i := range batch {
			o[i] = f(&batch[i])
		}
		out.push(o)
	})
	return out
}

// Filter returns the elements for which keep is true. It writes every element and
// then steps on or not, because a branch on the user's answer is mispredicted.
func Filter[T any](in *Node[T], op *Op, keep func(T) bool) *Node[T] {
	out := NewNode[T](derived(op, in))
	var buf []T
	op.scratch(&buf)
	in.to(&consumer[T]{
		push: func(batch []T) {
			op.site.at = op.index
			buf = resize(buf, len(batch))
			o, n := buf[:len(batch)], 0
			for _, x := range batch {
				o[n] = x
				if keep(x) {
					n++
				}
			}
			if n > 0 {
				out.push(o[:n])
			}
		},
		one: func(x T) {
			op.site.at = op.index
			if keep(x) {
				out.one(x)
			}
		},
		step: step[T]{op: op, kept: keep, out: out},
	})
	return out
}

// FilterMap returns what f returned with true.
func FilterMap[T, U any](in *Node[T], op *Op, f func(T) (U, bool)) *Node[U] {
	out := NewNode[U](derived(op, in))
	var buf []U
	op.scratch(&buf)
	in.to(&consumer[T]{
		push: func(batch []T) {
			op.site.at = op.index
			buf = resize(buf, len(batch))
			o, n := buf[:len(batch)], 0
			for _, x := range batch {
				u, ok := f(x)
				o[n] = u
				if ok {
					n++
				}
			}
			if n > 0 {
				out.push(o[:n])
			}
		},
		one: func(x T) {
			op.site.at = op.index
			if u, ok := f(x); ok {
				out.one(u)
			}
		},
	})
	return out
}

// FlatMap returns everything that f emits for each element.
func FlatMap[T, U any](in *Node[T], op *Op, f func(T, func(U))) *Node[U] {
	out := NewNode[U](derived(op, in))
	size := block[U]()
	var buf []U
	op.holds(&buf)
	emit := func(u U) {
		if buf = append(buf, u); len(buf) >= size {
			full := buf
			buf = nil // f may go on while full is pushed
			out.push(full)
			buf = full[:0]
			op.enter()
		}
	}
	in.To(func(batch []T) {
		op.enter()
		for _, x := range batch {
			f(x, emit)
		}
		if len(buf) > 0 {
			out.push(buf)
			buf = buf[:0]
		}
	})
	return out
}

// Inspect calls f with each element and passes the batch on.
func Inspect[T any](in *Node[T], op *Op, f func(T)) *Node[T] {
	out := NewNode[T](derived(op, in))
	if out.region != nil && out.region != &out.site.starts && out.site.g.set.Watch != nil {
		in.To(func(batch []T) {
			op.site.at = op.index
			for _, x := range batch {
				f(x)
			}
			for _, x := range batch {
				out.region.show(op, nil, x)
			}
			out.push(batch)
		})
		return out
	}
	in.to(&consumer[T]{
		push: func(batch []T) {
			op.site.at = op.index
			for _, x := range batch {
				f(x)
			}
			out.push(batch)
		},
		one: func(x T) {
			op.site.at = op.index
			f(x)
			out.one(x)
		},
		step: step[T]{op: op, seen: f, out: out},
	})
	return out
}

// Merge returns the elements of all of ins.
func Merge[T any](op *Op, ins ...*Node[T]) *Node[T] {
	hs := make([]header, len(ins))
	for i, in := range ins {
		hs[i] = in
	}
	out := NewNode[T](derived(op, hs...))
	for _, in := range ins {
		in.to(&consumer[T]{push: func(batch []T) { out.push(batch) }, one: func(x T) { out.one(x) }})
	}
	return out
}

// Constant pushes xs when the flow starts, or in each run of the slice r if it is
// not nil.
func Constant[T any](s *Site, r *Region, xs []T) *Node[T] {
	h := s.Constant()
	if r != nil {
		h = r.Own()
		h.ready = false
	}
	out := NewNode[T](h)
	h.region.atStep(func() { pushBlocks(out, xs) })
	return out
}

// Fold returns the running aggregate of a stream: after each batch at the top
// level, at its end inside a region. It is there from the start.
func Fold[T, A any](in *Node[T], op *Op, init func() A, step func(*A, T)) *Cell[A] {
	h := derived(op, in)
	out := NewCell[A](h)
	fold := func(acc *A, batch []T) {
		op.enter()
		for _, x := range batch {
			step(acc, x)
		}
	}
	m := remember(op, &h)
	if h.region == nil {
		acc := newVar(m, *new(A))
		h.site.starts.atStep(func() { op.enter(); *acc = init(); out.Set(*acc) })
		in.To(func(batch []T) { fold(acc, batch); out.Set(*acc) })
		return out
	}
	acc := newBegun[A](m)
	begin := func() {
		if !acc.some {
			op.enter()
			acc.value, acc.some = init(), true
		}
	}
	in.To(func(batch []T) { begin(); fold(&acc.value, batch) })
	h.region.atStep(func() { begin(); out.Set(acc.value) })
	return out
}

// derived is Same for an output that is complete only once its inputs were pushed.
func derived(op *Op, ins ...header) Head {
	op.again()
	h := Same(op.Name, ins...)
	h.ready = false
	return h
}
