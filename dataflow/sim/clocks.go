package sim

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// This file finds out which timers of a location need one clock. A step fires all timers that are
// due, so whatever sees one fire knows of the others. But if nothing can see both of two timers, such
// as those of two calls, each may have its own time, and a search need not try the orders in which
// they fire. The first execution has one clock. Timers that it shows to be independent have separate
// clocks from then on, until an execution shows that they are not independent; then the search begins
// anew.

// clocks returns what the execution showed about clocks.
func (d *descent) clocks() (known simulate.Known) {
	if d.known.Apart {
		known.Clocks = d.shared
		if d.several() {
			d.share(append(slices.Clip(d.before), d.events...), &known.Clocks)
		}
		return known
	}
	if d.whole || d.existing > 0 || !d.several() {
		return known
	}
	groups := d.shared
	d.share(untimed(append(slices.Clip(d.before), d.events...)), &groups)
	found := make(map[int32]engine.Object)
	for _, e := range d.events {
		for _, t := range e.Ticks {
			for _, o := range parts(&t) {
				of := groups.Clock(o)
				if one, ok := found[o.Location]; ok && one != of {
					return simulate.Known{Apart: true, Clocks: groups}
				}
				found[o.Location] = of
			}
		}
	}
	return known
}

// several reports whether timers fired of several parts of operators that are not known to share one
// clock.
func (d *descent) several() bool {
	var one engine.Object
	for _, all := range [][]event{d.before, d.events} {
		for i := range all {
			for j := range all[i].Ticks {
				t := &all[i].Ticks[j]
				for _, o := range parts(t) {
					if o = d.known.Clocks.Clock(o); t.Fires && one != (engine.Object{}) && one != o {
						return true
					}
					if t.Fires {
						one = o
					}
				}
			}
		}
	}
	return false
}

// parts returns the lanes or parts of operators that a tick affects, except those whose location has
// one clock anyway.
func parts(t *simulate.Tick) (all []engine.Object) {
	if !t.Fires {
		all = append(all, t.Of)
	}
	for _, x := range t.Pending {
		if t.Fires && x.At == t.At && !slices.Contains(all, x.Of) {
			all = append(all, x.Of)
		}
	}
	return slices.DeleteFunc(all, func(o engine.Object) bool { return o == engine.World })
}

// share finds, for each step, the timers that fired before it in every order of independent moves. They
// share one clock with the step, with the events on which the step depends but which could come after it
// instead, and with what follows from these events: otherwise it could be seen that a timer had not
// fired although it was due before one that had.
func (d *descent) share(events []event, groups *simulate.Groups) {
	type firing struct {
		event int
		of    engine.Object
	}
	var fired []firing
	var crashes []int
	p := newPast(events)
	later := make(map[int][]engine.Object) // what reads a clock after an event
	ticks := func(x int) []engine.Object {
		all, known := later[x]
		for y := x; y < len(events) && !known; y++ {
			if y > x && !events[y].before.has(x) {
				continue
			}
			for j := range events[y].Ticks {
				all = append(all, parts(&events[y].Ticks[j])...)
			}
		}
		later[x] = all
		return all
	}
	for i := range events {
		e := &events[i]
		var before []firing // the firings that e comes after
		for _, f := range fired {
			// It is no reason that a location crashes after one step and before the other.
			if e.before.has(f.event) && !slices.ContainsFunc(crashes, func(c int) bool { return e.before.has(c) && events[c].before.has(f.event) }) {
				before = append(before, f)
			}
		}
		one := func(f firing, o engine.Object) {
			if f.of.Location == o.Location {
				groups.Share(d.known.Clocks, f.of, o)
			}
		}
		for j := range e.Ticks {
			for _, o := range parts(&e.Ticks[j]) {
				for _, f := range before {
					one(f, o)
				}
				if e.Ticks[j].Fires {
					fired = append(fired, firing{i, o})
				}
			}
		}
		if e.Name.Kind == simulate.Crashes {
			crashes = append(crashes, i)
		} else if len(before) > 0 && !e.All && e.place >= 0 {
			for _, x := range p.rivals(i, nil) {
				if v := &events[x]; v.All || v.place < 0 || v.Name.Kind == simulate.Crashes {
					continue
				}
				if e.Waited && p.alone(x, i) {
					continue // the firing made e possible
				}
				for _, f := range before {
					if f.event == x || events[f.event].before.has(x) {
						continue
					}
					for _, o := range ticks(x) {
						one(f, o)
					}
				}
			}
		}
		p.note(i)
	}
}
