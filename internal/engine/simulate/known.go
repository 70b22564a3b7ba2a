package simulate

import (
	"maps"

	"github.com/millrace/millrace/internal/engine"
)

// Known is what has to be known of all simulations of a graph before one of them can say what a
// move did.
type Known struct {
	// Read are outputs of which somebody reads one element at a time, so that the order in which
	// something comes there is seen, and what else somebody looks at.
	Read map[engine.Object]bool
	// Together are lanes of inputs of which several records in one step can be told from one after
	// the other, each with those with which it is taken.
	Together Groups
	// Apart says that timers have a clock of their own unless they are of one location and of one
	// group of Clocks, of lanes and of parts of operators. Otherwise each location has one clock. It
	// has one also if that is in a group, because a function is told the time.
	Apart  bool
	Clocks Groups
}

// None reports whether nothing is known.
func (k Known) None() bool { return len(k.Read)+len(k.Together)+len(k.Clocks) == 0 && !k.Apart }

// Clone returns a copy.
func (k Known) Clone() Known {
	return Known{maps.Clone(k.Read), maps.Clone(k.Together), k.Apart, maps.Clone(k.Clocks)}
}

// See adds that somebody reads o.
func (k *Known) See(o engine.Object) {
	if k.Read == nil {
		k.Read = make(map[engine.Object]bool)
	}
	k.Read[o] = true
}

// Mingle adds that records of two lanes, or of one, are taken together.
func (k *Known) Mingle(a, b engine.Object) { k.Together.Join(a, b) }

// Add adds what l has.
func (k *Known) Add(l Known) {
	for o := range l.Read {
		k.See(o)
	}
	k.Together.Add(l.Together)
	k.Apart = k.Apart || l.Apart
	k.Clocks.Add(l.Clocks)
}

// Groups are objects that belong together, each with the one that stands for its group.
type Groups map[engine.Object]engine.Object

// Join puts two objects, or one, into one group.
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

// Share adds that two objects have one clock, unless known says so.
func (g *Groups) Share(known Groups, a, b engine.Object) {
	a, b = known.Clock(a), known.Clock(b)
	if _, one := known[a]; a != b || a.IsClock() && !one {
		g.Join(a, b)
	}
}

// Clock returns what stands for the clock of o: its group, or the location if that has one clock.
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

// Of returns the object that stands for the group of one.
func (g Groups) Of(o engine.Object) engine.Object {
	if of, ok := g[o]; ok {
		return of
	}
	return o
}
