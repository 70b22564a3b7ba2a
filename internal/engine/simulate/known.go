package simulate

import (
	"maps"

	"github.com/millrace/millrace/internal/engine"
)

// Known is what has to be known about all simulations of a graph before one of them can tell what a move did.
type Known struct {
	// Read contains outputs that are read one element at a time, so that their order is observed, and other objects that are
	// looked at.
	Read map[engine.Object]bool
	// Together contains lanes of inputs for which several records in one step can be told apart from one after another; each lane
	// is grouped with those with which it is taken.
	Together Groups
	// Apart says that timers have separate clocks unless they belong to one location and to one group of Clocks, whose members
	// are lanes and parts of operators. Otherwise each location has one clock. A location also has one clock if it is in a group
	// itself, because a function reads the time.
	Apart  bool
	Clocks Groups
}

// None reports whether nothing is known.
func (k Known) None() bool { return len(k.Read)+len(k.Together)+len(k.Clocks) == 0 && !k.Apart }

// Clone returns a copy.
func (k Known) Clone() Known {
	return Known{maps.Clone(k.Read), maps.Clone(k.Together), k.Apart, maps.Clone(k.Clocks)}
}

// See adds that o is read.
func (k *Known) See(o engine.Object) {
	if k.Read == nil {
		k.Read = make(map[engine.Object]bool)
	}
	k.Read[o] = true
}

// Mingle adds that records of two lanes, which may be the same, are taken together.
func (k *Known) Mingle(a, b engine.Object) { k.Together.Join(a, b) }

// Add adds everything in l.
func (k *Known) Add(l Known) {
	for o := range l.Read {
		k.See(o)
	}
	k.Together.Add(l.Together)
	k.Apart = k.Apart || l.Apart
	k.Clocks.Add(l.Clocks)
}

// Groups are groups of objects, as a map from each object to the representative of its group.
type Groups map[engine.Object]engine.Object

// Join puts two objects, which may be the same, into one group.
func (g *Groups) Join(a, b engine.Object) {
	if *g == nil {
		*g = make(Groups)
	}
	a, b = g.Of(a), g.Of(b)
	first, other := a, b
	if compare(b, a) < 0 {
		first, other = b, a
	}
	for o, of := range *g {
		if of == other {
			(*g)[o] = first
		}
	}
	(*g)[a], (*g)[b] = first, first
}

// Share adds that two objects have one clock, unless that is known.
func (g *Groups) Share(known Groups, a, b engine.Object) {
	a, b = known.Clock(a), known.Clock(b)
	if _, one := known[a]; a != b || a.IsClock() && !one {
		g.Join(a, b)
	}
}

// Clock returns the object that represents the clock of o: its group, or the location if that has one clock.
func (g Groups) Clock(o engine.Object) engine.Object {
	if all := o.Times(); g[all] == all {
		return all
	}
	return g.Of(o)
}

// Add adds the groups of h.
func (g *Groups) Add(h Groups) {
	for o, of := range h {
		g.Join(o, of)
	}
}

// Of returns the representative of an object's group.
func (g Groups) Of(o engine.Object) engine.Object {
	if of, ok := g[o]; ok {
		return of
	}
	return o
}
