package simulate

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine"
)

// A Tick is a moment that a move made, in the time of one clock: a step has read the clock, or the timers of one deadline have
// fired. A step that fires timers has a tick for each deadline.
type Tick struct {
	Clock   engine.Object
	Of      engine.Object // the lane or slice whose step has read it; World if the location has one clock anyway
	Fires   bool
	At      int64   // what the clock showed, or the deadline
	Free    bool    // the reading made a difference: a timer was set somewhere
	Pending []Timer // the clock's timers before it, in the order in which those of one deadline fire
}

// A Timer is a timer that is set.
type Timer struct {
	Queue   int
	Of      engine.Object // the part of an operator that has set it, or World
	At      int64
	Endless bool // it is set again whenever it fires, like that of an interval
}

// A Passing is what is known when a step is about to read a clock.
type Passing struct {
	Earliest int64   // what the clock showed last, or the latest deadline that has fired
	Usual    int64   // the least time after everything that has happened anywhere
	Matters  bool    // what the clock shows makes a difference: a timer is set somewhere
	Pending  []Timer // of the clock
}

// A Timekeeper is a [Chooser] that decides what the time is when a step reads a clock. Without one the time is the usual one.
type Timekeeper interface {
	// Time returns what the clock shows, which is at least the earliest time.
	Time(p Passing) int64
	// Clock returns the number of the clock, within its location, of something that is seen for the first time. usual is the
	// number that follows from what is known: that of an existing clock, or the next one.
	Clock(usual int) int
}

// A timeline is the time of a simulation.
type timeline struct {
	keeper Timekeeper          // the chooser, if it is one
	at     []clocks            // by location
	latest int64               // the latest moment anywhere
	oneWay map[*engine.Op]bool // receiving ends of links from a location that gets nothing from the receiver
}

// clocks are the clocks of a location. In production they show the same time, but how much time passes between two independent
// steps cannot be observed. So what is independent has separate clocks, at two locations or at one, as far as that is known; see
// [Known.Apart].
type clocks struct {
	several bool                  // there may be several
	all     []*clock              // in the order in which they were first used
	of      map[engine.Object]int // number of the clock of a lane, or of a part of an operator
	initial clock                 // what a clock shows that was not used before
	ticks   bool                  // there are endless timers
	taken   int                   // records that did not come from the location itself, counted if ticks
}

// A clock says how much time has passed, in nanoseconds since the history began.
type clock struct {
	name engine.Object
	now  int64 // what it showed last, or the latest deadline that has fired
	read int64 // what it showed last
}

// started is the time of the first step of a location.
const started = 1

// first makes the first step of a location. The first record may come at the same time.
func (d *Simulation) first(s *engine.Location) {
	p := &engine.Plan{Start: true, Cut: engine.CutNone}
	if d.level == Engine {
		p.Cut = engine.CutAll
	}
	d.Perform(s, p)
	d.held(s)
	d.time.at[s.Number].pass(started)
}

// Pass makes a location busy until now, so that its timers fire late.
func (d *Simulation) Pass(location int32, now int64) {
	d.time.at[location].pass(now)
	d.time.latest = max(d.time.latest, now)
}

func (at *clocks) pass(now int64) {
	for _, c := range append(at.all, &at.initial) {
		c.now, c.read = max(c.now, now), max(c.read, now)
	}
}

// clockOf returns the clock of a lane, or of a part of an operator, of a location.
func (d *Simulation) clockOf(s *engine.Location, o engine.Object) *clock {
	at := &d.time.at[s.Number]
	if !at.several {
		if len(at.all) == 0 {
			at.add(s.Times())
		}
		return at.all[0]
	}
	n, seen := at.of[o]
	if !seen {
		usual, name := 0, s.Times()
		if d.known.Apart {
			name = d.known.Clocks.Clock(o)
			if usual = slices.IndexFunc(at.all, func(c *clock) bool { return c.name == name }); usual < 0 {
				usual = len(at.all)
			}
		}
		if n = usual; d.time.keeper != nil {
			n = min(d.time.keeper.Clock(usual), len(at.all))
		}
		at.of[o] = n
		if n == len(at.all) {
			if n > 0 && !d.known.Apart { // a repeated schedule says so itself
				name = o
			}
			at.add(name)
		}
	}
	return at.all[n]
}

func (at *clocks) add(name engine.Object) {
	c := at.initial
	c.name = name
	at.all = append(at.all, &c)
}

// touchClock returns the clock of the current move at a location, and records that it is touched: a move that reads a clock
// depends on all others that do, since time passes.
func (d *Simulation) touchClock(s *engine.Location) *clock {
	if d.moverClock == nil && d.mover.Location == int32(s.Number) {
		d.moverClock = d.clockOf(s, d.mover)
	}
	if d.moverClock == nil || d.moverClock.name.Location != int32(s.Number) || !d.time.at[s.Number].several {
		d.footprint.touch(s.Times(), engine.Writes)
		return d.clockOf(s, s.Times())
	}
	d.footprint.touch(engine.TimesOf(d.moverClock.name), engine.Writes)
	d.footprint.touch(s.Times(), engine.Adds)
	return d.moverClock
}

// moverOf returns the lane, or the part of an operator, whose clock a move uses.
func moverOf(m *Move) engine.Object {
	switch m.Kind {
	case Takes:
		return m.In().Lane(m.ID)
	case Cuts:
		return m.region.Object()
	}
	return engine.World // it has no clock
}

// shares records which lanes and parts of operators deal with timers in one move, so that they have one clock.
func (d *Simulation) shares(s *engine.Location, e *Effect) {
	if d.moverClock == nil || !d.time.at[s.Number].several {
		return
	}
	one := d.mover
	for _, t := range e.Touched {
		switch {
		case t.Location != int32(s.Number) || !s.TimedPart(t.Object):
		case one.Location != t.Location:
			one = t.Object
		default:
			d.footprint.shared.Share(d.known.Clocks, one, t.Object)
		}
	}
}

// Shared returns the lanes and parts of operators that turned out to have one clock, as far as that was not known.
func (d *Simulation) Shared() Groups { return d.footprint.shared }

// Now implements [engine.Driver].
func (d *Simulation) Now(s *engine.Location) int64 {
	c := d.touchClock(s)
	if c.now == 0 {
		return started
	}
	p := Passing{Earliest: c.now, Usual: d.time.latest + 1, Matters: d.anyPending(), Pending: d.pending(s, c)}
	t := p.Usual
	if d.time.keeper != nil {
		t = max(d.time.keeper.Time(p), p.Earliest)
	}
	if t > p.Usual {
		d.g.Note(func() string { return fmt.Sprintf("let time pass to %v", time.Duration(t)) })
	}
	d.tick(Tick{Clock: c.name, Of: d.partOf(s, d.mover), At: t, Free: p.Matters, Pending: p.Pending})
	c.now, c.read = t, t
	return t
}

// progresses records that a location takes a record, so that endless timers are no longer tired. What comes back to the location,
// directly or over others, does not count, since an endless timer may have sent it.
func (d *Simulation) progresses(in *engine.InputBase) {
	at := &d.time.at[in.Loc.Number]
	if at.ticks && (in.FromOutside() || d.time.oneWay[in.Op]) {
		at.taken++
		d.footprint.touch(in.Loc.Ticks(), engine.Adds)
	}
}

// fire fires the timers of the earliest deadline of a clock, and those that are overdue. A step of production fires all timers
// that are due when it is made, and it is not made before the step that has last read the clock.
func (d *Simulation) fire(s *engine.Location, c *clock, deadline int64) {
	d.moverClock = c
	if d.time.at[s.Number].ticks {
		d.footprint.touch(s.Ticks(), engine.Reads)
	}
	d.touchClock(s)
	now := max(c.read, deadline)
	for i := range s.Timers {
		s.Timers[i].Skip(now)
	}
	if d.time.at[s.Number].several {
		s.Picks = func(of engine.Object) bool { return d.clockOf(s, of) == c }
		defer func() { s.Picks = nil }()
	}
	for at, ok := s.Deadline(); ok && at <= now; at, ok = s.Deadline() {
		d.touchDue(s, at)
		d.tick(Tick{Clock: c.name, Fires: true, At: at, Pending: d.pending(s, c)})
		c.now = max(c.now, at)
		s.TouchMarks(at, d)
		if !d.Perform(s, &engine.Plan{Now: at, Fire: true, Cut: engine.CutNone}) {
			return
		}
	}
}

// partOf returns o, or World if the location certainly has one clock.
func (d *Simulation) partOf(s *engine.Location, o engine.Object) engine.Object {
	if !d.time.at[s.Number].several {
		return engine.World
	}
	return o
}

// touchDue records that timers fire.
func (d *Simulation) touchDue(s *engine.Location, deadline int64) {
	if d.time.at[s.Number].several {
		s.Deadlines(func(_ int, of engine.Object, at int64) {
			if at == deadline && (s.Picks == nil || s.Picks(of)) {
				d.footprint.touch(of, engine.Writes)
			}
		})
	}
}

// tick records a moment.
func (d *Simulation) tick(t Tick) {
	d.time.latest = max(d.time.latest, t.At)
	if d.listener != nil {
		d.footprint.effect.Ticks = append(d.footprint.effect.Ticks, t)
	}
}

// pending returns the timers of a clock, if there is a timekeeper.
func (d *Simulation) pending(s *engine.Location, c *clock) (all []Timer) {
	if d.time.keeper == nil {
		return nil
	}
	s.Deadlines(func(queue int, of engine.Object, at int64) {
		if d.clockOf(s, of) == c {
			_, endless := s.Timers[queue].TimerQueue.(engine.EndlessTimer)
			all = append(all, Timer{queue, d.partOf(s, of), at, endless})
		}
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
