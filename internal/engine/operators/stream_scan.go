package operators

import (
	"cmp"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// Reduce returns the running aggregate of a stream that starts from its first element: after each batch at the top level, at its
// end inside a region. Without an element there is no value.
func Reduce[T any](in *engine.Node[T], op *engine.Op, step func(*T, T)) *engine.ValueNode[T] {
	out := engine.NewValueNode[T](engine.Derived(op, in))
	acc := state.NewOptional[T](engine.Remember(op, &out.Head))
	reduce := func(batch []T) {
		op.Enter()
		if !acc.Some {
			acc.Some, acc.Value, batch = true, batch[0], batch[1:]
		}
		for _, x := range batch {
			step(&acc.Value, x)
		}
	}
	if out.Region == nil {
		in.To(func(batch []T) { reduce(batch); out.Set(acc.Value) })
		return out
	}
	in.To(reduce)
	out.Region.AtStep(func() {
		if acc.Some {
			out.Set(acc.Value)
		}
	})
	return out
}

// Extreme is Reduce for a function that picks one of two elements. At the top level the value is set only when another one was
// picked, so a repeat has no effect.
func Extreme[T cmp.Ordered](in *engine.Node[T], op *engine.Op, pick func(T, T) T) *engine.ValueNode[T] {
	all := Reduce(in, op, func(acc *T, x T) { *acc = pick(*acc, x) })
	if all.Region != nil {
		return all
	}
	out := engine.NewValueNode[T](all.Head)
	bits := keyed.BitsOf[T]()
	all.To(func(x T) {
		if !out.IsSet || out.Value != x || bits != nil && bits(out.Value) != bits(x) {
			out.Set(x)
		}
	})
	return out
}

// StreamScan calls step with the state, each element, and a function that emits.
func StreamScan[T, S, U any](in *engine.Node[T], op *engine.Op, init func() S, step func(*S, T, func(U))) *engine.Node[U] {
	state := state.NewOptional[S](engine.Remember(op, &in.Head))
	begin := func() {
		if !state.Some {
			op.Enter()
			state.Some, state.Value = true, init()
		}
	}
	return FlatMap(in, op, func(x T, emit func(U)) { begin(); step(&state.Value, x, emit) })
}

// Enumerate returns what pair makes of each element and its index.
func Enumerate[T, E any](in *engine.Node[T], op *engine.Op, pair func(int, T) E) *engine.Node[E] {
	out := engine.NewNode[E](engine.Derived(op, in))
	next := state.NewVar(engine.Remember(op, &out.Head), 0)
	var buf []E
	op.Scratch(&buf)
	in.To(func(batch []T) {
		buf = engine.Resize(buf, len(batch))
		o := buf[:len(batch)]
		for i, x := range batch {
			o[i] = pair(*next+i, x)
		}
		*next += len(batch)
		out.Push(o)
	})
	return out
}

// Limit returns the first n elements.
func Limit[T any](in *engine.Node[T], op *engine.Op, n int) *engine.Node[T] {
	out := engine.NewNode[T](engine.Derived(op, in))
	left := state.NewVar(engine.Remember(op, &out.Head), n)
	in.To(func(batch []T) {
		if len(batch) > *left {
			batch = batch[:*left:*left]
		}
		if len(batch) > 0 {
			*left -= len(batch)
			out.Push(batch)
		}
	})
	return out
}

// Unique returns each element the first time it comes. Which of two equal elements came first cannot be seen.
func Unique[T comparable](in *engine.Node[T], op *engine.Op) *engine.Node[T] {
	out := engine.NewNode[T](engine.Derived(op, in))
	seen := state.NewSet[T](engine.Remember(op, &out.Head))
	hash, positive := engine.Hasher[T](), keyed.PositiveOf[T]()
	var hs []uint64
	var news []int32
	var buf []T
	op.Scratch(&hs, &news, &buf)
	in.To(func(batch []T) {
		op.Enter() // an element may turn out not to be hashable
		n := len(batch)
		hs, buf = engine.Resize(hs, n), engine.Resize(buf, n)
		hash.HashAll(batch, hs)
		if positive != nil {
			for i, x := range batch {
				buf[i] = positive(x)
			}
			batch = buf
		}
		news = seen.PutNew(batch, hs, news[:0])
		for j, i := range news {
			buf[j] = batch[i]
		}
		if m := len(news); m > 0 {
			out.Push(buf[:m])
		}
	})
	return out
}
