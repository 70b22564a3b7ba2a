package engine

import (
	"fmt"
	"reflect"
)

// scratch declares variables of op, by their addresses, whose values nobody reads in
// another batch than the one in which they were written. So they are no state, although
// they outlive a step: their memory is used again.
func (op *Op) scratch(variables ...any) {
	if op.site.g.set.Check != nil {
		op.unread = append(op.unread, variables...)
	}
}

// holds is scratch for what gathers elements in a step, and is empty when it ends.
func (op *Op) holds(variables ...any) {
	if op.site.g.set.Check != nil {
		op.empty = append(op.empty, variables...)
	}
}

// A Forget says which parts of operators' memories are not registered, so that it can be
// seen whether a test notices: those that are saved, or those that are cleared at the end
// of each run of a slice. Each operator counts its parts from 0.
type Forget func(operator string, part int, saved bool) bool

// A check is what a graph that is tested has.
type check struct {
	forget Forget
	parts  map[*Op]int // so many each operator has
}

// Check makes an empty graph one that is tested: see [Graph.Scrub]. What forget says is
// forgotten; it may be nil.
func (g *Graph) Check(forget Forget) {
	g.set.Check = &check{forget, make(map[*Op]int)}
}

// forgets reports whether the next part of m is not to be registered.
func (c *check) forgets(m memory) bool {
	part := c.parts[m.op]
	c.parts[m.op]++
	return c.forget != nil && c.forget(m.op.Name, part, m.region == nil)
}

// Scrub overwrites with zero values what operators have declared to be of no use between
// steps, so that an operator which reads it nevertheless does something else than the
// model. If no slice has yet to be cut, it returns an error if there is something left
// where an operator declared that there is not. Nobody may make a step meanwhile.
func (g *Graph) Scrub(cut bool) error {
	for _, s := range g.sites {
		for _, op := range s.ops {
			for _, p := range op.empty {
				v := reflect.ValueOf(p).Elem()
				if n := length(v); n > 0 && cut {
					return fmt.Errorf("%s: %d elements of a %v are left after a step", op, n, v.Type())
				}
			}
			for _, p := range op.unread {
				reflect.ValueOf(p).Elem().SetZero()
			}
		}
	}
	return nil
}

// length returns how many elements there are in a slice, or in the slices of columns.
func length(v reflect.Value) (n int) {
	if v.Kind() == reflect.Slice {
		return v.Len()
	}
	for i := range v.NumField() {
		n += length(v.Field(i))
	}
	return n
}
