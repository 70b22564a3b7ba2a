package engine

// StreamScan calls step with the state, each element, and a function that emits.
func StreamScan[T, S, U any](in *Node[T], op *Op, init func() S, step func(*S, T, func(U))) *Node[U] {
	state := newBegun[S](remember(op, &in.Head))
	begin := func() {
		if !state.some {
			op.enter()
			state.some, state.value = true, init()
		}
	}
	return FlatMap(in, op, func(x T, emit func(U)) { begin(); step(&state.value, x, emit) })
}

// Enumerate returns what pair makes of each element and its index.
func Enumerate[T, E any](in *Node[T], op *Op, pair func(int, T) E) *Node[E] {
	out := NewNode[E](derived(op, in))
	next := newVar(remember(op, &out.Head), 0)
	var buf []E
	op.scratch(&buf)
	in.To(func(batch []T) {
		buf = resize(buf, len(batch))
		o := buf[:len(batch)]
		for i, x := range batch {
			o[i] = pair(*next+i, x)
		}
		*next += len(batch)
		out.push(o)
	})
	return out
}

// Limit returns the first n elements.
func Limit[T any](in *Node[T], op *Op, n int) *Node[T] {
	out := NewNode[T](derived(op, in))
	left := newVar(remember(op, &out.Head), n)
	in.To(func(batch []T) {
		if len(batch) > *left {
			batch = batch[:*left:*left]
		}
		if len(batch) > 0 {
			*left -= len(batch)
			out.push(batch)
		}
	})
	return out
}

// Unique returns each element the first time it comes.
func Unique[T comparable](in *Node[T], op *Op) *Node[T] {
	out := NewNode[T](derived(op, in))
	seen := newSet[T](remember(op, &out.Head))
	hash := hasher[T]()
	var hs []uint64
	var buf []T
	op.scratch(&hs, &buf)
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
