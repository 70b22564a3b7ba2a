package sim

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// An event is a move of an execution.
type event struct {
	simulate.Effect
	place  int // the number of places before the one where it was chosen; -1 if nothing else could happen
	last   int // the same for the last choice before it or within it
	before set // events that happen before it in every order of independent moves
}

// A history lists the accesses to one object, in order.
type history []accessEvent

type accessEvent struct {
	event  int
	access engine.Access
}

// A set is a bit set of events. Events beyond its end are not in it.
type set []uint64

func (s set) has(i int) bool { return i/64 < len(s) && s[i/64]&(1<<(i%64)) != 0 }
func (s set) add(i int)      { s[i/64] |= 1 << (i % 64) }
func (s set) join(t set) {
	for i, x := range t[:min(len(s), len(t))] {
		s[i] |= x
	}
}

func (s set) meets(t set) bool {
	for i, x := range t[:min(len(s), len(t))] {
		if s[i]&x != 0 {
			return true
		}
	}
	return false
}

// A past is what is known of an execution up to an event.
type past struct {
	events  []event
	lastOf  map[simulate.Name]int
	objects map[engine.Object]history
	sent    map[engine.Object][]int
	taken   map[engine.Object][]int
	barrier int // the last event on which everything depends, or -1
}

// races finds, for each move after the branches that already existed, the earlier moves that could have
// come after it, where the other order can be observed.
func (d *descent) races() (found []addition) {
	p := newPast(append(d.before, d.events...))
	words := len(p.events)/64 + 1
	for i := range p.events {
		if i < len(d.before) {
			p.takes(i, func(int) {})
			p.note(i)
			continue
		}
		e := &p.events[i]
		e.before = make(set, words)
		after := func(j int) { p.after(e, j) }
		if j, ok := p.lastOf[e.Name]; ok {
			after(j)
		}
		if e.Name.Kind == simulate.Crashes { // it may come before the return of a call at a point whose answer it has taken
			for _, j := range slices.Backward(p.rivals(i, nil)) {
				if a, ok := d.race(p, j, i); ok && p.events[j].Name.Kind == simulate.Resumes {
					found = append(found, a)
				}
			}
		}
		found = append(found, d.competes(p, i)...) // before what has sent what it takes in this execution
		p.takes(i, after)
		for _, j := range slices.Backward(p.rivals(i, e.before)) {
			if !e.before.has(j) {
				found = d.tryBefore(p, j, i, found)
				after(j)
			}
		}
		p.note(i)
		found = append(found, d.waits(p, i)...)
	}
	copy(d.events, p.events[len(d.before):])
	return found
}

// newPast returns an empty past of the events.
func newPast(events []event) *past {
	return &past{
		events:  events,
		lastOf:  make(map[simulate.Name]int),
		objects: make(map[engine.Object]history),
		sent:    make(map[engine.Object][]int),
		taken:   make(map[engine.Object][]int),
		barrier: -1,
	}
}

// after makes e depend on event j.
func (p *past) after(e *event, j int) {
	e.before.add(j)
	e.before.join(p.events[j].before)
}

// takes makes event i depend on the events that sent what it takes, and on those that took what had to be
// taken first.
func (p *past) takes(i int, after func(j int)) {
	e := &p.events[i]
	for _, o := range e.Took {
		if from := p.sent[o]; len(from) > 0 {
			after(from[0])
			if !e.Again {
				p.sent[o] = from[1:]
			}
		}
	}
	for _, o := range e.Behind {
		for _, j := range p.taken[o] {
			after(j)
		}
	}
}

// note records what event i does.
func (p *past) note(i int) {
	e := &p.events[i]
	p.lastOf[e.Name] = i
	for _, t := range e.Touched {
		p.objects[t.Object] = append(p.objects[t.Object], accessEvent{i, t.Access})
	}
	for _, o := range e.Sent {
		p.sent[o] = append(p.sent[o], i)
	}
	for _, o := range e.Took {
		o.Key = 0
		p.taken[o] = append(p.taken[o], i)
	}
	if e.All {
		p.barrier = i
	}
}

// rivals returns the events before event i on which it depends, in order, without those in known. It
// leaves out some that happen before one of these anyway.
func (p *past) rivals(i int, known set) (all []int) {
	e := &p.events[i]
	add := func(j int) {
		if !known.has(j) { // in a long execution nearly all are
			all = append(all, j)
		}
	}
	if e.All {
		for j := max(p.barrier, 0); j < i; j++ {
			add(j)
		}
		return all
	}
	if p.barrier >= 0 {
		add(p.barrier)
	}
	for _, t := range e.Touched {
		for _, d := range slices.Backward(p.objects[t.Object]) {
			if d.event < p.barrier {
				break
			}
			if t.Conflicts(d.access) {
				add(d.event)
			}
			if d.access&engine.Writes != 0 {
				break // all events before it happen before it
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// alone reports whether event x is the only event before event i that conflicts with it in what they both
// touch.
func (p *past) alone(x, i int) bool {
	for _, t := range p.events[i].Touched {
		conflicts, others := false, false
		for _, d := range p.objects[t.Object] {
			if t.Conflicts(d.access) {
				conflicts, others = conflicts || d.event == x, others || d.event != x
			}
		}
		if conflicts && others {
			return false
		}
	}
	return true
}

// competes schedules event i, a client's, before the events in which other clients took something from the
// same queues. It may depend on one of these only because it has then taken something else.
func (d *descent) competes(p *past, i int) (found []addition) {
	e := &p.events[i]
	if e.Name.Kind != simulate.Acts {
		return nil
	}
	for _, o := range e.Took {
		o.Key = 0
		for _, j := range slices.Backward(p.taken[o]) {
			if p.events[j].Name != e.Name && !e.before.has(j) {
				found = d.tryBefore(p, j, i, found)
			}
		}
	}
	return found
}

// waits schedules event i, after which its client waits for something, before the events that may have
// taken that away.
func (d *descent) waits(p *past, i int) (found []addition) {
	e := &p.events[i]
	for _, t := range e.Wants {
		for _, x := range slices.Backward(p.objects[t.Object]) {
			if x.event < p.barrier {
				break
			}
			if t.Conflicts(x.access) && x.event != i && !e.before.has(x.event) {
				found = d.tryBefore(p, x.event, i, found)
			}
		}
	}
	return found
}

// tryBefore adds to found that event i is tried before event j, if that is possible.
func (d *descent) tryBefore(p *past, j, i int, found []addition) []addition {
	if a, ok := d.race(p, j, i); ok {
		found = append(found, a)
	}
	return found
}

// race returns the addition that tries event i before event j, and whether that is possible.
func (d *descent) race(p *past, j, i int) (a addition, ok bool) {
	e, before := &p.events[i], &p.events[j]
	if before.place < 0 || e.place < 0 { // it had to wait until nothing else could happen
		return a, false
	}
	at := d.path[before.place].at
	if at.among == 1 {
		return a, false
	}
	between := make(set, len(p.events)/64+1) // events that came after j and do not depend on it
	var heads []simulate.Name                // those of them that can come first
	for k := j + 1; k < i; k++ {
		x := &p.events[k]
		if x.before.has(j) {
			continue
		}
		if !x.before.meets(between) && x.place >= 0 {
			heads = append(heads, x.Name)
		}
		between.add(k)
	}
	if !e.before.meets(between) {
		if !slices.Contains(at.moves, e.Name) {
			return a, false // what j did made the move possible
		}
		heads = append([]simulate.Name{e.Name}, heads...)
	}
	return addition{depth: at.depth, heads: heads}, true
}
