package engine

import "github.com/millrace/millrace/internal/keyed"

// StreamScan calls step with the state, each element, and a function that emits.
func StreamScan[T, S, U any](in *Node[T], op *Op, init func() S, step func(*S, T, func(U))) *Node[U] {
	var state S
	begun := false
	begin := func() {
		if !begun {
			op.enter()
			begun, state = true, init()
		}
	}
	out := FlatMap(in, op, func(x T, emit func(U)) { begin(); step(&state, x, emit) })
	if out.region != nil {
		out.region.atEnd(func() { var zero S; state, begun = zero, false })
	} else {
		keepsVar(op, &state)
		keepsVar(op, &begun)
	}
	return out
}

// Enumerate returns what pair makes of each element and its index.
func Enumerate[T, E any](in *Node[T], op *Op, pair func(int, T) E) *Node[E] {
	out := NewNode[E](derived(op, in))
	next := 0
	var buf []E
	in.To(func(batch []T) {
		buf = resize(buf, len(batch))
		o := buf[:len(batch)]
		for i, x := range batch {
			o[i] = pair(next+i, x)
		}
		next += len(batch)
		out.push(o)
	})
	if out.region != nil {
		out.region.atEnd(func() { next = 0 })
	} else {
		keepsVar(op, &next)
	}
	return out
}

// Limit returns the first n elements.
func Limit[T any](in *Node[T], op *Op, n int) *Node[T] {
	out := NewNode[T](derived(op, in))
	left := n
	in.To(func(batch []T) {
		if len(batch) > left {
			batch = batch[:left:left]
		}
		if len(batch) > 0 {
			left -= len(batch)
			out.push(batch)
		}
	})
	if out.region != nil {
		out.region.atEnd(func() { left = n })
	} else {
		keepsVar(op, &left)
	}
	return out
}

// Unique returns each element the first time it comes.
func Unique[T comparable](in *Node[T], op *Op) *Node[T] {
	out := NewNode[T](derived(op, in))
	seen := keyed.NewTable[T, struct{}]()
	setOf(op, out.region, seen)
	hash := hasher[T]()
	var hs []uint64
	var buf []T
	in.To(func(batch []T) {
		op.enter() // an element may turn out not to be hashable
		n := len(batch)
		hs, buf = resize(hs, n), resize(buf, n)
		hash.HashAll(batch, hs)
		seen.Touch(hs)
		m := 0
		for i, x := range batch {
			_, added := seen.Put(x, hs[i])
			buf[m] = x
			if added {
				m++
			}
		}
		if m > 0 {
			out.push(buf[:m])
		}
	})
	return out
}
