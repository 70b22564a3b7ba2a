// Package operators contains the operators of flows, a file for each family: stream_*.go for plain streams, keyed_*.go for keyed
// streams and keyed singletons, value_*.go for single values, slice.go for the border of slices.
//
// An operator is a function that takes nodes and its [engine.Op] and returns a node. It adds a consumer to each node that it
// reads, and the consumer pushes to the returned node. What the operator remembers comes from package state. Start reading at
// [Map] for plain streams and at [First] for keyed ones.
package operators

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
)

// Map returns f of each element.
func Map[T, U any](in *engine.Node[T], op *engine.Op, f func(T) U) *engine.Node[U] {
	out := engine.NewNode[U](engine.Derived(op, in))
	var buf []U
	op.Scratch(&buf)
	c := &engine.Consumer[T]{
		Push: func(batch []T) {
			op.Loc.At = op.Index // op.Enter(): a caller in another package would not inline that
			buf = engine.Resize(buf, len(batch))
			o := buf[:len(batch)] // the compiler sees that o[i] is in bounds
			for i, x := range batch {
				o[i] = f(x)
			}
			out.Push(o)
		},
		MakeOne: func() func(T) {
			at, index, next := &op.Loc.At, op.Index, out.One
			return func(x T) {
				*at = index
				next(f(x))
			}
		},
	}
	if g, ok := any(f).(func(T) T); ok {
		c.Step = engine.ElementStep[T]{Op: op, Mapped: g, Out: any(out).(*engine.Node[T])}
	}
	op.Loc.Compiled(func() { fuse(c, op, f, out) })
	in.Consume(c)
	return out
}

// MapRef is Map for elements that are expensive to copy.
func MapRef[T, U any](in *engine.Node[T], op *engine.Op, f func(*T) U) *engine.Node[U] {
	out := engine.NewNode[U](engine.Derived(op, in))
	var buf []U
	op.Scratch(&buf)
	in.To(func(batch []T) {
		op.Loc.At = op.Index
		buf = engine.Resize(buf, len(batch))
		o := buf[:len(batch)]
		for i := range batch {
			o[i] = f(&batch[i])
		}
		out.Push(o)
	})
	return out
}

// Filter returns the elements for which keep is true. It writes every element and then advances or not, because a branch on the
// user's answer is mispredicted.
func Filter[T any](in *engine.Node[T], op *engine.Op, keep func(T) bool) *engine.Node[T] {
	out := engine.NewNode[T](engine.Derived(op, in))
	var buf []T
	op.Scratch(&buf)
	in.Consume(&engine.Consumer[T]{
		Push: func(batch []T) {
			op.Loc.At = op.Index
			buf = engine.Resize(buf, len(batch))
			o, n := buf[:len(batch)], 0
			for _, x := range batch {
				o[n] = x
				if keep(x) {
					n++
				}
			}
			if n > 0 {
				out.Push(o[:n])
			}
		},
		MakeOne: func() func(T) {
			at, index, next := &op.Loc.At, op.Index, out.One
			return func(x T) {
				if *at = index; keep(x) {
					next(x)
				}
			}
		},
		Step: engine.ElementStep[T]{Op: op, Kept: keep, Out: out},
	})
	return out
}

// FilterMap returns the values that f returned with true.
func FilterMap[T, U any](in *engine.Node[T], op *engine.Op, f func(T) (U, bool)) *engine.Node[U] {
	out := engine.NewNode[U](engine.Derived(op, in))
	var buf []U
	op.Scratch(&buf)
	in.Consume(&engine.Consumer[T]{
		Push: func(batch []T) {
			op.Loc.At = op.Index
			buf = engine.Resize(buf, len(batch))
			o, n := buf[:len(batch)], 0
			for _, x := range batch {
				u, ok := f(x)
				o[n] = u
				if ok {
					n++
				}
			}
			if n > 0 {
				out.Push(o[:n])
			}
		},
		MakeOne: func() func(T) {
			at, index, next := &op.Loc.At, op.Index, out.One
			return func(x T) {
				*at = index
				if u, ok := f(x); ok {
					next(u)
				}
			}
		},
	})
	return out
}

// FlatMap returns everything that f emits for each element.
func FlatMap[T, U any](in *engine.Node[T], op *engine.Op, f func(T, func(U))) *engine.Node[U] {
	out := engine.NewNode[U](engine.Derived(op, in))
	size := engine.BlockSize[U]()
	var buf []U
	op.Holds(&buf)
	emit := func(u U) {
		if buf = append(buf, u); len(buf) >= size {
			full := buf
			buf = nil // f may continue while full is pushed
			out.Push(full)
			buf = full[:0]
			op.Enter()
		}
	}
	in.To(func(batch []T) {
		op.Enter()
		for _, x := range batch {
			f(x, emit)
		}
		if len(buf) > 0 {
			out.Push(buf)
			buf = buf[:0]
		}
	})
	return out
}

// Inspect calls f with each element and passes the batch on.
func Inspect[T any](in *engine.Node[T], op *engine.Op, f func(T)) *engine.Node[T] {
	out := engine.NewNode[T](engine.Derived(op, in))
	if out.Region != nil && out.Region != &out.Loc.Starts && out.Loc.Graph.Settings.Watch != nil {
		in.To(func(batch []T) {
			op.Loc.At = op.Index
			for _, x := range batch {
				f(x)
			}
			for _, x := range batch {
				out.Region.Show(op, nil, x)
			}
			out.Push(batch)
		})
		return out
	}
	in.Consume(&engine.Consumer[T]{
		Push: func(batch []T) {
			op.Loc.At = op.Index
			for _, x := range batch {
				f(x)
			}
			out.Push(batch)
		},
		MakeOne: func() func(T) {
			at, index, next := &op.Loc.At, op.Index, out.One
			if len(out.Outs) == 0 {
				return func(x T) {
					*at = index
					f(x)
				}
			}
			return func(x T) {
				*at = index
				f(x)
				next(x)
			}
		},
		Step: engine.ElementStep[T]{Op: op, Seen: f, Out: out},
	})
	return out
}

// Merge returns the elements of all of ins.
func Merge[T any](op *engine.Op, ins ...*engine.Node[T]) *engine.Node[T] {
	hs := make([]engine.Header, len(ins))
	for i, in := range ins {
		hs[i] = in
	}
	out := engine.NewNode[T](engine.Merged(op, hs...))
	for _, in := range ins {
		in.Consume(&engine.Consumer[T]{Push: func(batch []T) { out.Push(batch) }, One: func(x T) { out.One(x) }})
	}
	return out
}

// Constant pushes xs when the flow starts, or in each run of the slice r if it is
// not nil.
func Constant[T any](s *engine.Location, r *engine.Region, xs []T) *engine.Node[T] {
	h := s.Constant()
	if r != nil {
		h = r.Own()
		h.Ready = false
	}
	out := engine.NewNode[T](h)
	h.Region.AtStep(func() { engine.PushBlocks(out, xs) })
	return out
}

// Fold returns the running aggregate of a stream: after each batch at the top level, at the end of the stream inside a region. At
// the top level it exists from the start.
func Fold[T, A any](in *engine.Node[T], op *engine.Op, init func() A, step func(*A, T)) *engine.ValueNode[A] {
	h := engine.Derived(op, in)
	out := engine.NewValueNode[A](h)
	fold := func(acc *A, batch []T) {
		op.Enter()
		for _, x := range batch {
			step(acc, x)
		}
	}
	m := engine.Remember(op, &h)
	if h.Region == nil {
		acc := state.NewVar(m, *new(A))
		h.Loc.Starts.AtStep(func() { op.Enter(); *acc = init(); out.Set(*acc) })
		in.To(func(batch []T) { fold(acc, batch); out.Set(*acc) })
		return out
	}
	acc := state.NewOptional[A](m)
	begin := func() {
		if !acc.Some {
			op.Enter()
			acc.Value, acc.Some = init(), true
		}
	}
	in.To(func(batch []T) { begin(); fold(&acc.Value, batch) })
	h.Region.AtStep(func() { begin(); out.Set(acc.Value) })
	return out
}

// Partition returns the elements for which pred is true, and the others. It calls pred once for each element, and writes the
// element to both sides before it knows, because a branch on the user's answer is mispredicted.
func Partition[T any](in *engine.Node[T], op *engine.Op, pred func(T) bool) (yes, no *engine.Node[T]) {
	h := engine.Derived(op, in)
	yes, no = engine.NewNode[T](h), engine.NewNode[T](h)
	var ys, ns []T
	op.Scratch(&ys, &ns)
	in.To(func(batch []T) {
		op.Enter()
		ys, ns = engine.Resize(ys, len(batch)), engine.Resize(ns, len(batch))
		i, j := 0, 0
		for _, x := range batch {
			ys[i], ns[j] = x, x
			if pred(x) {
				i++
			} else {
				j++
			}
		}
		if i > 0 {
			yes.Push(ys[:i])
		}
		if j > 0 {
			no.Push(ns[:j])
		}
	})
	return yes, no
}

// TryMap returns the values that f returned without an error. For the other elements it returns what failed makes of the element
// and the error.
func TryMap[T, U, F any](in *engine.Node[T], op *engine.Op, f func(T) (U, error), failed func(T, error) F) (values *engine.Node[U], failures *engine.Node[F]) {
	h := engine.Derived(op, in)
	values, failures = engine.NewNode[U](h), engine.NewNode[F](h)
	var us []U
	var fs []F
	op.Scratch(&us, &fs)
	in.To(func(batch []T) {
		op.Enter()
		us, fs = us[:0], fs[:0]
		for _, x := range batch {
			if u, err := f(x); err == nil {
				us = append(us, u)
			} else {
				fs = append(fs, failed(x, err))
			}
		}
		if len(us) > 0 {
			values.Push(us)
		}
		if len(fs) > 0 {
			failures.Push(fs)
			clear(fs)
		}
	})
	return values, failures
}
