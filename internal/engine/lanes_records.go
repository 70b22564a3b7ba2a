package engine

import (
	"reflect"
	"slices"
)

// recordLanes are the lanes of an input whose records have no order: each record is one.
// Records that nobody can tell apart share one, since to take one of them instead of the
// other makes no difference.
type recordLanes struct {
	values reflect.Type   // their type
	opaque bool           // a digest does not say whether two records are equal
	byWhat map[uint64]int // lanes by the digest of their records, once there is one
	of     []int          // lanes of the records that wait, as far as they were looked at
	n      int            // how many lanes there are
}

// Shared makes in an input without order: any number of senders send to it. If retried, a
// record may come more than once.
func (in *Inlet[T]) Shared(retried bool) {
	in.retried, in.unordered = retried, &recordLanes{values: reflect.TypeFor[T]()}
}

// Shared makes in an input without order within a key; see [Inlet.Shared].
func (in *KInlet[K, V]) Shared(retried bool) {
	in.retried, in.unordered = retried, &recordLanes{values: reflect.TypeFor[V]()}
}

// heads returns the first of n waiting records of each lane that has one.
func (r *recordLanes) heads(n int, in *part, digest func(i int) uint64) []head {
	if r.byWhat == nil {
		r.byWhat, r.opaque = make(map[uint64]int), opaque(r.values)
	}
	if len(r.of) < n {
		in.find().last = -1 // what has come now may have come before what was taken last
	}
	for i := len(r.of); i < n; i++ {
		lane := r.n
		if !r.opaque {
			what := digest(i)
			known, ok := r.byWhat[what]
			if !ok {
				r.byWhat[what] = lane
			} else {
				lane = known
			}
		}
		r.n = max(r.n, lane+1)
		r.of = append(r.of, lane)
	}
	var all []head
	seen := make(map[int]bool)
	for i, lane := range r.of {
		if !seen[lane] {
			seen[lane] = true
			all = append(all, head{lane, i})
		}
	}
	sortHeads(all)
	return all
}

// took notes that the record at i waits no longer.
func (r *recordLanes) took(i int) {
	if r != nil {
		r.of = slices.Delete(r.of, i, i+1)
	}
}

// opaque reports whether values of t can differ although their digests do not.
func opaque(t reflect.Type) bool { return opaqueIn(t, nil) }

func opaqueIn(t reflect.Type, in []reflect.Type) bool {
	if slices.Contains(in, t) {
		return false
	}
	in = append(in, t)
	switch t.Kind() {
	case reflect.Func, reflect.Chan, reflect.UnsafePointer, reflect.Interface:
		return true
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return opaqueIn(t.Elem(), in)
	case reflect.Map:
		return opaqueIn(t.Key(), in) || opaqueIn(t.Elem(), in)
	case reflect.Struct:
		for i := range t.NumField() {
			if opaqueIn(t.Field(i).Type, in) {
				return true
			}
		}
	}
	return false
}

// SeesRepeats says that somebody can tell, behind h, that a record came more than once.
func (h *Head) SeesRepeats() {
	g := h.site.g
	g.tell = append(g.tell, h.part)
}

// repeats are records of retried inputs that come more than once in a simulation. One does
// only where somebody can tell.
type repeats struct {
	most, made int
	told       []*part // where somebody can tell, or what is sent from there to such a place
}

// Repeat lets records of retried inputs come again, n times in all. By default none does.
func (d *Simulation) Repeat(n int) { d.repeats.most = n }

// Repeated returns how many times a record came again.
func (d *Simulation) Repeated() int { return d.repeats.made }

// find finds where somebody can tell, when it is known what hangs together.
func (r *repeats) find(g *Graph) {
	add := func(p *part) {
		if p = p.find(); !slices.Contains(r.told, p) {
			r.told = append(r.told, p)
		}
	}
	for _, p := range g.tell {
		add(p)
	}
	for i := 0; i < len(r.told); i++ {
		for _, l := range g.links.all {
			if l.dst.find() == r.told[i] {
				add(l.src)
			}
		}
	}
}

// takeAgain asks whether a record of p, which is taken, comes again.
func (d *Simulation) takeAgain(in *door, p *part) bool {
	r := &d.repeats
	if !in.retried || r.made >= r.most || !slices.Contains(r.told, p.find()) || d.choose.Choose(2) == 0 {
		return false
	}
	r.made++
	d.g.note(func() string { return "it will come again from " + in.op.String() })
	return true
}
