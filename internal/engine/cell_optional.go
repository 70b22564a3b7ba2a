package engine

// ConstantCell returns a cell that has v from the start, or in each run of the slice r
// if it is not nil.
func ConstantCell[T any](s *Site, r *Region, v T) *Cell[T] {
	h := s.Constant()
	if r != nil {
		h = r.Own()
	}
	out := NewCell[T](h)
	h.region.atPre(func() { out.Set(v) })
	return out
}

// CellFilterMap returns what f returned with true, and no value while there is none
// or f drops it.
func CellFilterMap[T, U any](c *Cell[T], op *Op, f func(T) (U, bool)) *Cell[U] {
	out := NewCell[U](Same(op.Name, c))
	c.To(func(v T) {
		op.enter()
		if u, ok := f(v); ok {
			out.Set(u)
		} else {
			out.Unset()
		}
	})
	c.ToUnset(out.Unset)
	return out
}

// changing is a cell of any type.
type changing interface{ changed(f func()) }

// whole calls f when all that cells have in a run is known, once in each run. At the
// top level it calls f at the start and whenever one of the cells has changed.
func whole(h *Head, f func(), cells ...changing) {
	switch {
	case h.region == nil:
		h.site.starts.atStep(f)
		for _, c := range cells {
			c.changed(f)
		}
	case h.ready:
		h.region.atPre(f)
	default:
		h.region.atStep(f)
	}
}

// CellTotal returns what f makes of the value, or of there being none.
func CellTotal[T, U any](c *Cell[T], op *Op, f func(v T, ok bool) U) *Cell[U] {
	out := NewCell[U](Same(op.Name, c))
	whole(&out.Head, func() { out.Set(f(c.value, c.set)) }, c)
	return out
}

// CellIs returns whether there is a value, if some, or whether there is none. It
// changes only when that does.
func CellIs[T any](c *Cell[T], op *Op, some bool) *Cell[bool] {
	out := NewCell[bool](Same(op.Name, c))
	whole(&out.Head, func() {
		if is := c.set == some; !out.set || out.value != is {
			out.Set(is)
		}
	}, c)
	return out
}

// CellOr returns the value of a, or else that of b, if any.
func CellOr[T any](a, b *Cell[T], op *Op) *Cell[T] {
	out := NewCell[T](Same(op.Name, a, b))
	whole(&out.Head, func() {
		switch {
		case a.set:
			out.Set(a.value)
		case b.set:
			out.Set(b.value)
		default:
			out.Unset()
		}
	}, a, b)
	return out
}

// CellUnwrapOr returns the value of c, or else that of fallback, which always has
// one: both in one region, or fallback a constant.
func CellUnwrapOr[T any](c, fallback *Cell[T], op *Op) *Cell[T] {
	var h Head
	if c.region == nil {
		h, _ = beside(op, c, &fallback.Head)
	} else {
		h = Same(op.Name, c, fallback)
	}
	out := NewCell[T](h)
	whole(&out.Head, func() {
		if c.set {
			out.Set(c.value)
		} else {
			out.Set(fallback.value)
		}
	}, c)
	return out
}

// CellThreshold returns limit, once, when reached first holds of the value: once in
// each run inside a region, once and for all at the top level.
//
// At the top level nothing is returned before everything that hangs on constants has
// begun, since whoever reads the result may begin there itself.
func CellThreshold[T any](c *Cell[T], op *Op, limit T, reached func(T) bool) *Node[T] {
	h := derived(op, c)
	out := NewNode[T](h)
	if h.region != nil {
		h.region.atStep(func() {
			if c.set && reached(c.value) {
				out.one(limit)
			}
		})
		return out
	}
	done := newVar(remember(op, &h), false)
	var begun *bool
	look := func() {
		if *begun && !*done && c.set && reached(c.value) {
			*done = true
			out.one(limit)
		}
	}
	begun = afterStart(h.site, look)
	c.To(func(T) { look() })
	return out
}
