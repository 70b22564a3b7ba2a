package simulate

import (
	"iter"
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// A suspendedCall is a call whose function has not returned: it is suspended at a point.
type suspendedCall struct {
	name  Name
	loc   *engine.Location
	calls engine.Calling
	text  string // the call
	at    string // the point

	resume func() (struct{}, bool)
	stop   func()
	yield  func(struct{}) bool
}

// callNow makes a call on a coroutine, until its function returns or reaches a point, and reports whether it has returned.
func (d *Simulation) callNow(m *Move) (c *suspendedCall, returned bool) {
	c = &suspendedCall{
		name: Name{Resumes, int32(m.loc.Number), m.Op, m.ID}, loc: m.loc, calls: m.calls, text: m.calls.CallText(m.call),
	}
	c.resume, c.stop = iter.Pull(func(yield func(struct{}) bool) {
		c.yield = yield
		defer func() {
			if p := recover(); p != nil && !Unwinds(p) {
				panic(p)
			}
		}()
		m.calls.CallNow(m.call, d.level == Engine)
	})
	if returned = d.enter(c); !returned {
		d.suspended = append(d.suspended, c)
	}
	return c, returned
}

// enter resumes the function of a call, and reports whether it has returned.
func (d *Simulation) enter(c *suspendedCall) (returned bool) {
	before := d.within
	d.within = c
	defer func() { d.within = before }()
	_, more := c.resume()
	return !more
}

// proceed resumes a call from its point.
func (d *Simulation) proceed(c *suspendedCall) {
	d.footprint.touch(c.calls.Operator().Object(c.name.ID), engine.Writes)
	d.suspended = slices.DeleteFunc(d.suspended, func(x *suspendedCall) bool { return x == c }) // it may wait at a port now, while other moves are made
	if d.enter(c) {
		d.returned(c)
	} else {
		d.suspended = append(d.suspended, c)
	}
}

// Point splits the current move, if it is a client's or the call of a function: moves from elsewhere can come between what it did
// before and what it does after.
func (d *Simulation) Point(where string) {
	switch c := d.within; {
	case d.inline || d.inspecting != nil:
	case c != nil:
		c.at = where
		if !c.yield(struct{}{}) {
			panic(errEnded)
		}
	case d.running != nil:
		d.footprint.touch(engine.World, engine.Writes)
		if d.Turn(engine.Turn{Action: where}) == nil {
			d.footprint.touch(engine.World, engine.Writes)
		}
	}
}

// resumesOf adds the calls of a location that are at a point.
func (d *Simulation) resumesOf(s *engine.Location, all []Move) []Move {
	for _, c := range d.suspended {
		if c.loc == s {
			all = append(all, Move{Name: c.name, loc: s, suspended: c})
		}
	}
	return all
}

// stopCalls ends the functions of calls that have not returned.
func (d *Simulation) stopCalls() {
	for _, c := range d.suspended {
		c.stop()
	}
	d.suspended = nil
}
