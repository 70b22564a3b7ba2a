package simulate

import (
	"cmp"
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// A Touch is what a move did with a part of the state.
type Touch struct {
	engine.Object
	engine.Access
}

// An Effect is what a move did, as far as other moves can depend on it.
type Effect struct {
	Name    Name
	All     bool            // it depends on everything before it, and everything after it depends on it
	Again   bool            // what it took is still there
	Waited  bool            // a caller had to wait for the move to become possible, if it was not already
	Touched []Touch         // sorted by object
	Sent    []engine.Object // the queues to which it sent records, in order
	Took    []engine.Object // the queues from which it took one, in order
	Behind  []engine.Object // inputs from which everything had to be taken before
	Wants   []Touch         // what its client does next, if the client has to wait for that
	ways    []engine.Object // the ways in which something came to an operator, if there are several
	Ticks   []Tick          // its relation to time, in order
}

// Conflicts reports whether the order of e and f makes a difference, apart from one taking what the other sent.
func (e *Effect) Conflicts(f *Effect) bool {
	return e.All || f.All || e.conflictsIn(f, nil)
}

// conflictsIn reports whether the order of e and f makes a difference to one of some operators, slices or clocks. Nil means all.
func (e *Effect) conflictsIn(f *Effect, some map[engine.Object]bool) bool {
	for i, j := 0, 0; i < len(e.Touched) && j < len(f.Touched); {
		switch a, b := e.Touched[i], f.Touched[j]; compare(a.Object, b.Object) {
		case -1:
			i++
		case 1:
			j++
		default:
			whole := a.Object
			whole.Key = 0
			if a.Conflicts(b.Access) && (some == nil || some[whole]) {
				return true
			}
			i, j = i+1, j+1
		}
	}
	return false
}

// Touch adds to e that it wrote some objects.
func (e *Effect) Touch(written ...engine.Object) {
	all := slices.Clone(e.Touched)
	for _, o := range written {
		all = append(all, Touch{o, engine.Writes})
	}
	e.Touched = merge(all)
}

// Join adds to e the effect of another execution of the same move.
func (e *Effect) Join(f *Effect) {
	e.All = e.All || f.All
	all := append(slices.Clone(e.Touched), f.Touched...)
	e.Touched = merge(all)
}

func compare(a, b engine.Object) int {
	return cmp.Or(cmp.Compare(a.Location, b.Location), cmp.Compare(a.Op, b.Op), cmp.Compare(a.Key, b.Key))
}

// merge sorts touches and merges those of the same object.
func merge(all []Touch) []Touch {
	slices.SortFunc(all, func(a, b Touch) int { return compare(a.Object, b.Object) })
	n := 0
	for _, t := range all {
		if n > 0 && all[n-1].Object == t.Object {
			all[n-1].Access |= t.Access
			continue
		}
		all[n] = t
		n++
	}
	return all[:n]
}

// A footprint collects what the current move has touched so far.
type footprint struct {
	effect Effect
	depth  int // a function of a call may use ports itself, which makes moves within the move

	read   map[engine.Object]bool // outputs whose order is observed
	Missed Known                  // what was not known before
	shared Groups                 // what has one clock and was not known to
}

// begin starts a new move.
func (t *footprint) begin(name Name) {
	if t.depth++; t.depth == 1 {
		t.effect = Effect{Name: name}
	}
}

// end returns the effect of the move. It reports false for a move within another one.
func (t *footprint) end() (e Effect, outer bool) {
	if t.depth--; t.depth > 0 {
		return e, false
	}
	e = t.effect
	e.Touched = merge(e.Touched)
	return e, true
}

// Touch implements [engine.Turns].
func (d *Simulation) Touch(o engine.Object, a engine.Access) {
	t := &d.footprint
	switch {
	case d.inspecting != nil:
		d.inspecting.touch(o, a)
		return
	case o == engine.Everything:
		t.effect.All = true
		return
	case d.inline:
		return
	case o.IsClock():
		d.touchClock(d.g.Locations[o.Location])
		if a == engine.Reads {
			t.shared.Share(d.known.Clocks, o, o)
		}
		return
	case o.IsCapacity() && !t.read[o]:
		if a == engine.Adds { // more comes than may wait
			t.Missed.See(o)
		}
		return
	case o.IsCapacity():
	case a == engine.Passes:
		if !slices.Contains(t.effect.ways, o) {
			t.effect.ways = append(t.effect.ways, o)
		}
		return
	case a == engine.Adds && t.read[o]: // the order is observed
		a = engine.Writes
	case a&engine.Takes != 0:
		if !t.read[o] {
			t.Missed.See(o)
		}
		t.effect.Took = append(t.effect.Took, o)
	case a == engine.Sends:
		t.effect.Sent = append(t.effect.Sent, d.sends(o))
	}
	t.touch(o, a)
}

func (t *footprint) touch(o engine.Object, a engine.Access) {
	if n := len(t.effect.Touched); n > 0 && t.effect.Touched[n-1] == (Touch{o, a}) {
		return
	}
	t.effect.Touched = append(t.effect.Touched, Touch{o, a})
}

// sends records that a record is sent to a lane of an input, and returns the queue in which it waits.
func (d *Simulation) sends(lane engine.Object) engine.Object {
	d.fills(d.g.Locations[lane.Location])
	if d.level == Engine {
		all := d.g.Locations[lane.Location].Inbox()
		d.footprint.touch(all, engine.Sends)
		return all
	}
	d.inGroup(lane)
	return lane
}

// Gives implements [engine.Turns].
func (d *Simulation) Gives(o engine.Object) {
	if h := d.firing; h != nil { // not visible before the step ends
		h.given = append(h.given, o)
		return
	}
	t := &d.footprint
	whole := o
	whole.Key = 0
	seen := engine.Adds
	if t.read[whole] {
		seen = engine.Sends
	}
	if o != whole {
		t.touch(o, engine.Writes)
		if t.read[whole] {
			seen = engine.Writes
		}
	} else {
		t.effect.Sent = append(t.effect.Sent, o)
	}
	t.touch(whole, seen)
}
