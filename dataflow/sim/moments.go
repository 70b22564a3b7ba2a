package sim

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// This file finds out where time has to pass. In an execution as little time passes as possible.
// When the execution is over, the search looks at each firing for another timer that could have
// fired first if more time had passed before. The times at which steps read the clock are the
// unknowns. What happened until then is a set of differences between them, and that the other timer
// fires first is another one. If there is a solution, the latest read that needs another time is
// tried at that time, too.

// moments are the times of an execution.
type moments struct {
	events []event
	causes []event   // the same without the clocks; nil until first used
	places []*branch // the branches of the path that come after the last read
	reads  []read    // numbered from 1
	clocks map[engine.Object]*clock
	so     differences // what must hold because of what has happened so far
	found  []addition
}

// A read is a step that read the clock.
type read struct {
	at    int64
	depth int // of the place where its time was chosen, or -1
}

// A clock is the clock of a location.
type clock struct {
	read    moment // the last read
	last    moment // the last read, or the latest deadline that has fired
	at      int64  // the time of last
	fires   bool   // last is a deadline
	pending []pending
	set     int // number of timers that were set so far
	states  []clockState
}

// clockState is the state of a clock after an event.
type clockState struct {
	event      int
	read, last moment
}

// A pending is a timer that is set.
type pending struct {
	simulate.Timer
	due moment
	set int // its number among the timers of its location
}

// pass returns the times that must be tried so that time passes wherever that makes a difference.
func (d *descent) pass() []addition {
	m := &moments{
		events: append(slices.Clip(d.before), d.events...), places: d.path,
		reads: make([]read, 1), clocks: make(map[engine.Object]*clock),
	}
	for i := range m.events {
		e := &m.events[i]
		for j := range e.Ticks {
			t := &e.Ticks[j]
			at := m.clocks[t.Clock]
			if at == nil {
				at = new(clock)
				m.clocks[t.Clock] = at
			}
			at.know(t)
			if t.Fires {
				again := j > 0 && e.Ticks[j-1].Fires && e.Ticks[j-1].Clock == t.Clock
				m.fires(at, i, j, again, i >= len(d.before))
			} else {
				m.read(at, t, i)
			}
			at.states = append(at.states, clockState{i, at.read, at.last})
		}
	}
	return m.found
}

// place returns the depth of the place where the next time was chosen.
func (m *moments) place() int {
	for !m.places[0].at.timed {
		m.places = m.places[1:]
	}
	b := m.places[0]
	m.places = m.places[1:]
	return b.at.depth
}

// know finds out what the deadlines depend on of the timers that were set since the last tick.
func (at *clock) know(t *simulate.Tick) {
	before := at.pending
	at.pending = make([]pending, len(t.Pending))
	for i, x := range t.Pending {
		j := slices.IndexFunc(before, func(y pending) bool { return y.Timer == x })
		if j >= 0 {
			at.pending[i] = before[j]
			before = slices.Delete(before, j, j+1)
			continue
		}
		at.set++
		due := moment{at.last.read, at.last.plus + x.At - at.at}
		if x.Endless { // due at a multiple of something, whenever it was set
			due = moment{plus: x.At}
		}
		at.pending[i] = pending{x, due, at.set}
	}
}

// read notes a read of the clock.
func (m *moments) read(at *clock, t *simulate.Tick, event int) {
	now := moment{read: len(m.reads)}
	depth := -1
	if t.Free {
		depth = m.place()
	}
	m.reads = append(m.reads, read{t.At, depth})
	m.so.after(now, moment{}, false)
	m.so.after(now, at.read, true)
	if at.fires {
		m.so.after(now, at.last, true)
		at.rests(&m.so, at.pending)
	}
	for _, other := range m.clocks {
		if other == at {
			continue
		}
		for _, s := range slices.Backward(other.states) {
			if m.events[event].before.has(s.event) {
				m.so.after(now, s.last, true)
				m.so.after(now, s.read, true)
				break
			}
		}
	}
	at.read, at.last, at.at, at.fires = now, now, t.At, false
}

// rests requires that the timers that are left after a step that fired timers are due later than
// those, and later than the time of the step before.
func (at *clock) rests(so *differences, left []pending) {
	for _, x := range left {
		if !x.Endless { // hole H13 of doc/testing-engine.md
			so.after(x.due, at.last, false)
			so.after(x.due, at.read, false)
		}
	}
}

// first requires that x fires first of some timers. Timers that are due at the same time fire in the
// order of their operators, and then in the order in which they were set.
func (x pending) first(so *differences, among []pending) {
	for _, y := range among {
		if x.due != y.due && !x.Endless && !y.Endless { // hole H13 of doc/testing-engine.md
			so.after(y.due, x.due, x.Queue < y.Queue || x.Queue == y.Queue && x.set < y.set)
		}
	}
}

// fires notes a firing of timers, and looks for others that could have fired first.
func (m *moments) fires(at *clock, event, tick int, again, fresh bool) {
	t := &m.events[event].Ticks[tick]
	left := slices.Clone(at.pending)
	for n := 0; ; n++ {
		i := slices.IndexFunc(left, func(x pending) bool { return x.At == t.At })
		if i < 0 {
			return
		}
		x := left[i]
		if fresh {
			if (n > 0 || again) && !x.Endless {
				so := slices.Clip(m.so)
				at.rests(&so, left)
				m.possible(so)
			}
			for _, y := range left {
				if y.due != x.due && !y.Endless && !x.Endless && m.matters(event, t.Clock, y.Timer) { // hole H13 of doc/testing-engine.md
					so := slices.Clip(m.so)
					y.first(&so, left)
					m.possible(so)
				}
			}
		}
		x.first(&m.so, left)
		at.last, at.at, at.fires = x.due, t.At, true
		left = slices.Delete(left, i, i+1)
	}
}

// matters reports whether anything besides the clock can observe that a timer fires after an event
// instead of before it: the event conflicts with that firing, or with something that follows from
// it. If the timer never fires, or fires in the same step, matters reports true.
func (m *moments) matters(of int, clock engine.Object, x simulate.Timer) bool {
	fires := func(e event) bool {
		return slices.ContainsFunc(e.Ticks, func(t simulate.Tick) bool {
			return t.Fires && t.Clock == clock && t.At == x.At && slices.Contains(t.Pending, x)
		})
	}
	at := slices.IndexFunc(m.events[of:], fires) + of
	if at <= of {
		return true
	}
	if m.causes == nil {
		m.causes = untimed(m.events)
	}
	for i := at; i < len(m.causes); i++ {
		if e := &m.causes[i]; (i == at || e.before.has(at)) && e.Conflicts(&m.causes[of].Effect) {
			return true
		}
	}
	return false
}

// untimed returns the events without the clocks that they touch. An event then happens before
// another only for reasons other than time.
func untimed(events []event) []event {
	p := newPast(slices.Clone(events))
	for i := range p.events {
		e := &p.events[i]
		e.Touched = slices.DeleteFunc(slices.Clone(e.Touched), func(t simulate.Touch) bool { return t.IsClock() })
		e.before = make(set, len(events)/64+1)
		after := func(j int) { p.after(e, j) }
		if j, ok := p.lastOf[e.Name]; ok && e.Name.Kind != simulate.Fires {
			after(j)
		}
		p.takes(i, after)
		for _, j := range p.rivals(i, e.before) {
			after(j)
		}
		p.note(i)
	}
	return p.events
}

// possible schedules another time for the latest read that needs one to satisfy so.
func (m *moments) possible(so differences) {
	fixed := make([]int64, len(m.reads))
	fix := func(n int) []int64 { // all reads before n, and those whose time was not chosen
		for i, r := range m.reads {
			if fixed[i] = 0; i < n || r.depth < 0 {
				fixed[i] = r.at
			}
		}
		return fixed
	}
	at := so.solve(fix(1))
	if at == nil {
		return
	}
	from := 1 // the first read that can be changed
	for to := len(m.reads); from < to; {
		n := (from + to + 1) / 2
		if x := so.solve(fix(n)); x != nil {
			from, at = n, x
		} else {
			to = n - 1
		}
	}
	for n := from; n < len(m.reads); n++ {
		if r := m.reads[n]; r.depth >= 0 && at[n] != r.at {
			m.found = append(m.found, addition{depth: r.depth, time: at[n]})
			return
		}
	}
}

// someTimes returns times from which one is chosen at random. It contains the usual time as often as
// others, times that approach each of the first four deadlines, and one after each deadline.
func someTimes(p simulate.Passing) []int64 {
	var all []int64
	for _, x := range p.Pending[:min(len(p.Pending), 4)] {
		if x.At > latest {
			continue
		}
		for d := x.At - p.Usual; d > 1; d /= 2 {
			all = append(all, x.At-d/2)
		}
		all = append(all, max(x.At+1, p.Usual))
	}
	return append(slices.Repeat([]int64{p.Usual}, len(all)+1), all...)
}
