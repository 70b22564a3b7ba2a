package simulate

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine"
)

// A Tick is a moment in the time of a location that a move made: a step has read the clock, or
// the timers of one deadline have fired. A step that fires timers has a tick for each deadline.
type Tick struct {
	Location int32
	Fires    bool
	At       int64   // what the clock showed, or the deadline
	Free     bool    // it made a difference what the clock shows: a timer was set somewhere
	Pending  []Timer // the timers of the location before, in the order in which those of one deadline fire
}

// A Timer is one that is set.
type Timer struct {
	Queue   int
	At      int64
	Endless bool // it is set again whenever it fires, as that of an interval is
}

// A Passing is what is known when a step is about to read the clock.
type Passing struct {
	Earliest int64   // what the clock of the location showed last, or the latest deadline that has fired
	Usual    int64   // as little after whatever has happened anywhere as there is
	Matters  bool    // what the clock shows: a timer is set somewhere
	Pending  []Timer // of the location
}

// A Timekeeper is a [Chooser] that says what the time is when a step reads the clock. Without one
// the time is the usual one.
type Timekeeper interface {
	// Time returns what the clock shows: not less than the earliest time.
	Time(p Passing) int64
}

// A timeline is the time of a simulation.
type timeline struct {
	keeper Timekeeper // the chooser, if it is one
	clocks []clock    // by location
	latest int64      // the latest moment anywhere
}

// A clock is the time of a location, in nanoseconds since the history began. Each location has
// one: production's run at the same rate, but nobody can tell how much passes between a step of
// one location and a step of another one that does not depend on it.
type clock struct {
	now  int64 // what it showed last, or the latest deadline that has fired
	read int64 // what it showed last
}

// started is what the clock shows in the first step of a location.
const started = 1

// first makes the first step of a location. The first record may come at the same time.
func (d *Simulation) first(s *engine.Location) {
	p := &engine.Plan{Start: true, Cut: engine.CutNone}
	if d.level == Engine {
		p.Cut = engine.CutAll
	}
	d.Perform(s, p)
	d.time.clocks[s.Number] = clock{started, started}
}

// Now implements [engine.Driver]. Whoever reads the clock depends on all others at the location
// who do, since time passes.
func (d *Simulation) Now(s *engine.Location) int64 {
	d.trail.touch(s.Times(), engine.Writes)
	c := &d.time.clocks[s.Number]
	if c.now == 0 {
		return started
	}
	p := Passing{Earliest: c.now, Usual: d.time.latest + 1, Matters: d.anyPending(), Pending: d.pending(s)}
	t := p.Usual
	if d.time.keeper != nil {
		t = max(d.time.keeper.Time(p), p.Earliest)
	}
	if t > p.Usual {
		d.g.Note(func() string { return fmt.Sprintf("let time pass to %v", time.Duration(t)) })
	}
	d.tick(s, Tick{At: t, Free: p.Matters, Pending: p.Pending})
	c.now, c.read = t, t
	return t
}

// Pass has a location be busy until now, so that its timers fire late.
func (d *Simulation) Pass(location int32, now int64) {
	c := &d.time.clocks[location]
	c.now, c.read = max(c.now, now), max(c.read, now)
	d.time.latest = max(d.time.latest, now)
}

// fire fires the timers of the earliest deadline of a location, and those that are overdue: a
// step of production fires all that are due when it is made, and it is not made before the one
// that has read the clock last.
func (d *Simulation) fire(s *engine.Location, deadline int64) {
	d.trail.touch(s.Times(), engine.Writes)
	c := &d.time.clocks[s.Number]
	now := max(c.read, deadline)
	for i := range s.Timers {
		s.Timers[i].Skip(now)
	}
	for at, ok := s.Deadline(); ok && at <= now; at, ok = s.Deadline() {
		d.tick(s, Tick{Fires: true, At: at, Pending: d.pending(s)})
		c.now = max(c.now, at)
		s.TouchMarks(at, d)
		if !d.Perform(s, &engine.Plan{Now: at, Fire: true, Cut: engine.CutNone}) {
			return
		}
	}
}

// tick notes a moment.
func (d *Simulation) tick(s *engine.Location, t Tick) {
	d.time.latest = max(d.time.latest, t.At)
	if d.told != nil {
		t.Location = int32(s.Number)
		d.trail.effect.Ticks = append(d.trail.effect.Ticks, t)
	}
}

// pending returns the timers of a location, if somebody wants to know.
func (d *Simulation) pending(s *engine.Location) (all []Timer) {
	if d.time.keeper == nil {
		return nil
	}
	s.Deadlines(func(queue int, at int64) {
		_, endless := s.Timers[queue].TimerQueue.(engine.EndlessTimer)
		all = append(all, Timer{queue, at, endless})
	})
	return all
}

// anyPending reports whether a timer is set anywhere.
func (d *Simulation) anyPending() bool {
	for _, s := range d.g.Locations {
		if _, ok := s.Deadline(); ok && !s.Finished {
			return true
		}
	}
	return false
}
