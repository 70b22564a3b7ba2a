package simulate

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine"
)

// bounds are what a simulation has of the bounds of production. A location whose output is over its
// bound makes no step until somebody has read.
type bounds struct {
	outputs bool   // have one
	stopped []bool // by location: its step has ended with an output over its bound
}

// Bound has outputs hold n elements that nobody has read; by default any number. It is called before
// something is built.
func (d *Simulation) Bound(n int) {
	d.bounds.outputs, d.g.Settings.Buffer = true, n
}

// Bounded implements [engine.Driver].
func (d *Simulation) Bounded() bool { return d.bounds.outputs }

// stops reports whether a location makes no step because more waits behind it than may.
func (d *Simulation) stops(s *engine.Location) bool {
	if s.Stalled.Load() == 0 {
		d.bounds.stopped[s.Number] = false
	}
	return d.bounds.stopped[s.Number]
}

// held notes that a location has made a move of a step. If an output is over its bound now, the step of
// production either goes on with what else it has taken, or has ended: then the location makes no
// other one until somebody reads.
func (d *Simulation) held(s *engine.Location) {
	if !d.bounds.outputs {
		return
	}
	d.trail.touch(s.Held(), engine.Reads)
	if s.Stalled.Load() == 0 || d.level == Types && d.choose.Choose(2) == 1 {
		return
	}
	d.bounds.stopped[s.Number] = true
	d.g.Note(func() string { return fmt.Sprintf("%s stops: %s", s.Name, s.HeldUpBy()) })
}

// Arrived implements [engine.Driver].
func (d *Simulation) Arrived(l *engine.Edge) {
	if d.bounds.outputs && l.To.Full() {
		d.trail.touch(l.To.Room(), engine.Writes)
		l.Stall()
	}
	l.To.Mu.Unlock()
}

// fills says that the move sends a record to a location, or takes one, if a sender ever has to wait for
// room there.
func (d *Simulation) fills(s *engine.Location) {
	if o := s.Room(); d.trail.read[o] {
		d.trail.touch(o, engine.Adds)
	}
}

// makesRoom notes that the move takes one of the records that wait at a location: senders who wait for
// room depend on that, and locations that are stopped because the queue is full go on. It is called
// with the location's mu held.
func (d *Simulation) makesRoom(s *engine.Location) {
	d.fills(s)
	if s.Full() {
		d.trail.touch(s.Room(), engine.Writes)
	}
	s.MakeRoom()
}
