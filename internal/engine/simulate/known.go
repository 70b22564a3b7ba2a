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
	// the other, each with one of those with which it is taken: the same one for all of these.
	Together map[engine.Object]engine.Object
}

// None reports whether nothing is known.
func (k Known) None() bool { return len(k.Read)+len(k.Together) == 0 }

// Clone returns a copy.
func (k Known) Clone() Known { return Known{maps.Clone(k.Read), maps.Clone(k.Together)} }

// See adds that somebody reads o.
func (k *Known) See(o engine.Object) {
	if k.Read == nil {
		k.Read = make(map[engine.Object]bool)
	}
	k.Read[o] = true
}

// Mingle adds that records of two lanes, or of one, are taken together.
func (k *Known) Mingle(a, b engine.Object) {
	if k.Together == nil {
		k.Together = make(map[engine.Object]engine.Object)
	}
	a, b = k.group(a), k.group(b)
	first, other := a, b
	if compare(b, a) < 0 {
		first, other = b, a
	}
	for lane, of := range k.Together {
		if of == other {
			k.Together[lane] = first
		}
	}
	k.Together[a], k.Together[b] = first, first
}

// group returns the lane that stands for those with which a lane is taken.
func (k *Known) group(lane engine.Object) engine.Object {
	if of, ok := k.Together[lane]; ok {
		return of
	}
	return lane
}

// Add adds what l has.
func (k *Known) Add(l Known) {
	for o := range l.Read {
		k.See(o)
	}
	for lane, of := range l.Together {
		k.Mingle(lane, of)
	}
}
