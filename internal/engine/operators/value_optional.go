package operators

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
)

// ConstantValue returns a value node that has v from the start, or in each run of the slice r
// if it is not nil.
func ConstantValue[T any](s *engine.Location, r *engine.Region, v T) *engine.ValueNode[T] {
	h := s.Constant()
	if r != nil {
		h = r.Own()
	}
	out := engine.NewValueNode[T](h)
	h.Region.AtPre(func() { out.Set(v) })
	return out
}

// ValueFilterMap returns the value that f returned with true. It has no value while c has none or f drops it.
func ValueFilterMap[T, U any](c *engine.ValueNode[T], op *engine.Op, f func(T) (U, bool)) *engine.ValueNode[U] {
	out := engine.NewValueNode[U](engine.Same(op.Name, c))
	c.To(func(v T) {
		op.Enter()
		if u, ok := f(v); ok {
			out.Set(u)
		} else {
			out.Unset()
		}
	})
	c.ToUnset(out.Unset)
	return out
}

// changing is implemented by value nodes of any type.
type changing interface{ Changed(f func()) }

// whole calls f once in each run, when the values of all cells in the run are known. At the top level it calls f at the start and
// whenever one of the cells has changed.
func whole(h *engine.Head, f func(), cells ...changing) {
	switch {
	case h.Region == nil:
		h.Loc.Starts.AtStep(f)
		for _, c := range cells {
			c.Changed(f)
		}
	case h.Ready:
		h.Region.AtPre(f)
	default:
		h.Region.AtStep(f)
	}
}

// ValueTotal returns what f makes of the value, or of the absence of one.
func ValueTotal[T, U any](c *engine.ValueNode[T], op *engine.Op, f func(v T, ok bool) U) *engine.ValueNode[U] {
	out := engine.NewValueNode[U](engine.Same(op.Name, c))
	whole(&out.Head, func() { out.Set(f(c.Value, c.IsSet)) }, c)
	return out
}

// ValueIs returns whether there is a value if some is true, and whether there is none otherwise. It changes only when that does.
func ValueIs[T any](c *engine.ValueNode[T], op *engine.Op, some bool) *engine.ValueNode[bool] {
	out := engine.NewValueNode[bool](engine.Same(op.Name, c))
	whole(&out.Head, func() {
		if is := c.IsSet == some; !out.IsSet || out.Value != is {
			out.Set(is)
		}
	}, c)
	return out
}

// ValueOr returns the value of a, otherwise that of b, if any.
func ValueOr[T any](a, b *engine.ValueNode[T], op *engine.Op) *engine.ValueNode[T] {
	out := engine.NewValueNode[T](engine.Same(op.Name, a, b))
	whole(&out.Head, func() {
		switch {
		case a.IsSet:
			out.Set(a.Value)
		case b.IsSet:
			out.Set(b.Value)
		default:
			out.Unset()
		}
	}, a, b)
	return out
}

// ValueUnwrapOr returns the value of c, otherwise that of fallback, which always has one. Both are in one region, or fallback is
// a constant.
func ValueUnwrapOr[T any](c, fallback *engine.ValueNode[T], op *engine.Op) *engine.ValueNode[T] {
	var h engine.Head
	if c.Region == nil {
		h, _ = engine.Beside(op, c, &fallback.Head)
	} else {
		h = engine.Same(op.Name, c, fallback)
	}
	out := engine.NewValueNode[T](h)
	whole(&out.Head, func() {
		if c.IsSet {
			out.Set(c.Value)
		} else {
			out.Set(fallback.Value)
		}
	}, c)
	return out
}

// ValueThreshold returns limit, once, when reached first holds for the value: once in each run inside a region, once altogether
// at the top level.
//
// At the top level nothing is returned before everything that depends on constants has begun, since a reader of the result may
// begin there itself.
func ValueThreshold[T any](c *engine.ValueNode[T], op *engine.Op, limit T, reached func(T) bool) *engine.Node[T] {
	h := engine.Derived(op, c)
	out := engine.NewNode[T](h)
	if h.Region != nil {
		h.Region.AtStep(func() {
			if c.IsSet && reached(c.Value) {
				out.One(limit)
			}
		})
		return out
	}
	done := state.NewVar(engine.Remember(op, &h), false)
	var begun *bool
	look := func() {
		if *begun && !*done && c.IsSet && reached(c.Value) {
			*done = true
			out.One(limit)
		}
	}
	begun = engine.AfterStart(h.Loc, look)
	c.To(func(T) { look() })
	return out
}
