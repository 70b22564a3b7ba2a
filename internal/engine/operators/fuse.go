package operators

import "github.com/millrace/millrace/internal/engine"

// fuse makes c, which is Map with f, also do what follows it. It is called when the graph is compiled.
//
// Within a batch the functions of the operators then alternate; otherwise one would see all of the batch before the other. Since
// a batch may end anywhere, that can happen anyway. The running operator is recorded before each call, for the error that names
// it.
func fuse[T, U any](c *engine.Consumer[T], op *engine.Op, f func(T) U, out *engine.Node[U]) {
	out.CountedBy(op)
	next := out.Next()
	switch {
	case next.Mapped != nil:
		fuseMaps(c, op, f, next)
	case next.Kept != nil:
		fuseFilter(c, op, f, next)
	case next.Seen != nil:
		fuseInspect(c, op, f, next)
	}
}

func fuseFilter[T, U any](c *engine.Consumer[T], op *engine.Op, f func(T) U, next engine.ElementStep[U]) {
	at, first, second := &op.Loc.At, op.Index, next.Op.Index
	keep, out := next.Kept, next.Out
	var buf []U
	op.Scratch(&buf)
	c.Push = func(batch []T) {
		buf = engine.Resize(buf, len(batch))
		o, n := buf[:len(batch)], 0
		for _, x := range batch {
			*at = first
			u := f(x)
			o[n] = u // then advance or not; see Filter
			*at = second
			if keep(u) {
				n++
			}
		}
		if n > 0 {
			out.Push(o[:n])
		}
	}
	c.MakeOne = func() func(T) {
		push := out.One
		return func(x T) {
			*at = first
			u := f(x)
			*at = second
			if keep(u) {
				push(u)
			}
		}
	}
}

func fuseInspect[T, U any](c *engine.Consumer[T], op *engine.Op, f func(T) U, next engine.ElementStep[U]) {
	at, first, second := &op.Loc.At, op.Index, next.Op.Index
	see, out := next.Seen, next.Out
	var buf []U
	op.Scratch(&buf)
	c.Push = func(batch []T) {
		buf = engine.Resize(buf, len(batch))
		o := buf[:len(batch)]
		for i, x := range batch {
			*at = first
			u := f(x)
			o[i] = u
			*at = second
			see(u)
		}
		out.Push(o)
	}
	c.MakeOne = func() func(T) {
		push := out.One
		return func(x T) {
			*at = first
			u := f(x)
			*at = second
			see(u)
			push(u)
		}
	}
	if !next.Sink() {
		return
	}
	c.Push = func(batch []T) {
		for _, x := range batch {
			*at = first
			u := f(x)
			*at = second
			see(u)
		}
	}
	c.MakeOne = func() func(T) {
		return func(x T) {
			*at = first
			u := f(x)
			*at = second
			see(u)
		}
	}
}

// fuseMaps runs two maps in one loop, or four if there are as many. Further maps begin a loop of their own.
func fuseMaps[T, U any](c *engine.Consumer[T], op *engine.Op, f func(T) U, next engine.ElementStep[U]) {
	at, first, second := &op.Loc.At, op.Index, next.Op.Index
	g, out := next.Mapped, next.Out
	var buf []U
	op.Scratch(&buf)
	c.Push = func(batch []T) {
		buf = engine.Resize(buf, len(batch))
		o := buf[:len(batch)]
		for i, x := range batch {
			*at = first
			u := f(x)
			*at = second
			o[i] = g(u)
		}
		out.Push(o)
	}
	c.MakeOne = func() func(T) {
		push := out.One
		return func(x T) {
			*at = first
			u := f(x)
			*at = second
			push(g(u))
		}
	}
	s3 := out.Next()
	if s3.Mapped == nil {
		return
	}
	s4 := s3.Out.Next()
	if s4.Mapped == nil {
		return
	}
	third, h, fourth, k, end := s3.Op.Index, s3.Mapped, s4.Op.Index, s4.Mapped, s4.Out
	c.Push = func(batch []T) {
		buf = engine.Resize(buf, len(batch))
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
		end.Push(o)
	}
	c.MakeOne = func() func(T) {
		push := end.One
		return func(x T) {
			*at = first
			u := f(x)
			*at = second
			u = g(u)
			*at = third
			u = h(u)
			*at = fourth
			push(k(u))
		}
	}
}

// InlinedOperators instantiates one of each operator that a record passes through; see inline.go. It is exported so that it
// counts as used.
func InlinedOperators(op *engine.Op, n *engine.Node[int], k *engine.KeyedNode[int, int]) {
	KeyBy(n, op, func(x int) int { return x })
	First(k, op)
	FoldEarlyStop(k, op, func() int { return 0 }, func(*int, int) bool { return true })
	KFold(k, op, func() int { return 0 }, func(*int, int) {})
	Scan(k, op, func() int { return 0 }, func(*int, int, func(int)) {})
}
