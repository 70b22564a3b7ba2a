package engine

// EmitCell returns at the top level what c had in the newest run of its slice, if
// anything. If init is not nil, it has that value before the first run.
func EmitCell[T any](c *Cell[T], op *Op, init *T) *Cell[T] {
	r := slice(op, &c.Head)
	out := NewCell[T](r.Outside())
	if init != nil {
		r.site.starts.atStep(func() { out.Set(*init) })
	}
	r.atStep(func() {
		if r.site.g.set.Watch != nil {
			r.show(op, c.set, c.value)
		}
		if c.set {
			out.Set(c.value)
		} else {
			out.Unset()
		}
	})
	return out
}
