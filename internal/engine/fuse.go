package engine

// A step is what a consumer does with one element, for the operator before it that
// has the element in a register already: one loop for two operators instead of two
// loops and the loads and stores between them.
//
// Only one of mapped, kept and seen is set, or none: then it has to be pushed to.
type step[T any] struct {
	op     *Op
	mapped func(T) T
	kept   func(T) bool
	seen   func(T)
	out    *Node[T] // where what comes of it goes
}

// next returns the step of the only consumer of n, or a step that does nothing.
func (n *Node[T]) next() step[T] {
	if len(n.outs) != 1 {
		return step[T]{}
	}
	return n.outs[0].step
}

// sink reports whether nobody follows.
func (s *step[T]) sink() bool { return len(s.out.outs) == 0 }

// fuse makes c, which is Map with f, do what follows it as well. It is called when the
// graph is compiled.
//
// Within a batch the functions of the operators then take turns, where without it one
// would have seen all of the batch before the other; a batch may end anywhere, so that
// is nothing new. Which of them is running is noted before each call, for the error
// that names it.
func fuse[T, U any](c *consumer[T], op *Op, f func(T) U, out *Node[U]) {
	out.countedBy(op)
	next := out.next()
	switch {
	case next.mapped != nil:
		fuseMaps(c, op, f, next)
	case next.kept != nil:
		fuseFilter(c, op, f, next)
	case next.seen != nil:
		fuseInspect(c, op, f, next)
	}
}

func fuseFilter[T, U any](c *consumer[T], op *Op, f func(T) U, next step[U]) {
	at, first, second := &op.site.at, op.index, next.op.index
	keep, out := next.kept, next.out
	var buf []U
	op.scratch(&buf)
	c.push = func(batch []T) {
		buf = resize(buf, len(batch))
		o, n := buf[:len(batch)], 0
		for _, x := range batch {
			*at = first
			u := f(x)
			o[n] = u // and then step on or not; see Filter
			*at = second
			if keep(u) {
				n++
			}
		}
		if n > 0 {
			out.push(o[:n])
		}
	}
	c.one = func(x T) {
		*at = first
		u := f(x)
		*at = second
		if keep(u) {
			out.one(u)
		}
	}
}

func fuseInspect[T, U any](c *consumer[T], op *Op, f func(T) U, next step[U]) {
	at, first, second := &op.site.at, op.index, next.op.index
	see, out := next.seen, next.out
	var buf []U
	op.scratch(&buf)
	c.push = func(batch []T) {
		buf = resize(buf, len(batch))
		o := buf[:len(batch)]
		for i, x := range batch {
			*at = first
			u := f(x)
			o[i] = u
			*at = second
			see(u)
		}
		out.push(o)
	}
	c.one = func(x T) {
		*at = first
		u := f(x)
		*at = second
		see(u)
		out.one(u)
	}
	if !next.sink() {
		return
	}
	c.push = func(batch []T) {
		for _, x := range batch {
			*at = first
			u := f(x)
			*at = second
			see(u)
		}
	}
	c.one = func(x T) {
		*at = first
		u := f(x)
		*at = second
		see(u)
	}
}

// fuseMaps does two maps in one loop, or four if there are as many. The others begin a
// loop of their own.
func fuseMaps[T, U any](c *consumer[T], op *Op, f func(T) U, next step[U]) {
	at, first, second := &op.site.at, op.index, next.op.index
	g, out := next.mapped, next.out
	var buf []U
	op.scratch(&buf)
	c.push = func(batch []T) {
		buf = resize(buf, len(batch))
		o := buf[:len(batch)]
		for i, x := range batch {
			*at = first
			u := f(x)
			*at = second
			o[i] = g(u)
		}
		out.push(o)
	}
	c.one = func(x T) {
		*at = first
		u := f(x)
		*at = second
		out.one(g(u))
	}
	s3 := out.next()
	if s3.mapped == nil {
		return
	}
	s4 := s3.out.next()
	if s4.mapped == nil {
		return
	}
	third, h, fourth, k, end := s3.op.index, s3.mapped, s4.op.index, s4.mapped, s4.out
	c.push = func(batch []T) {
		buf = resize(buf, len(batch))
		o := buf[:len(batch)]
		for i, x := range batch {
			*at = first
			u := f(x)
			*at = second
			u = g(u)
			*at = third
			u = h(u)
			*at = fourth
			o[i] = k(u)
		}
		end.push(o)
	}
	c.one = func(x T) {
		*at = first
		u := f(x)
		*at = second
		u = g(u)
		*at = third
		u = h(u)
		*at = fourth
		end.one(k(u))
	}
}
