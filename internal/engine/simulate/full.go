package simulate

import (
	"fmt"

	"github.com/millrace/millrace/internal/engine"
)

// bounds are the bounds of production that a simulation has. A location whose output is over its bound makes no step until a
// reader has read.
type bounds struct {
	outputs bool   // outputs have bounds
	stopped []bool // by location: its step has ended with an output over its bound
}

// Bound limits outputs to n unread elements; by default there is no limit. It is called before anything is built.
func (d *Simulation) Bound(n int) {
	d.bounds.outputs, d.g.Settings.Buffer = true, n
}

// Bounded implements [engine.Driver].
func (d *Simulation) Bounded() bool { return d.bounds.outputs }

// stops reports whether a location makes no step because more waits behind it than allowed.
func (d *Simulation) stops(s *engine.Location) bool {
	if s.Stalled.Load() == 0 {
		d.bounds.stopped[s.Number] = false
	}
	return d.bounds.stopped[s.Number]
}

// held is called after a location has made a move of a step. If an output is over its bound now, the step of production either
// continues with what else it has taken, or has ended; in that case the location makes no further step until a reader has read.
func (d *Simulation) held(s *engine.Location) {
	if !d.bounds.outputs {
		return
	}
	d.footprint.touch(s.Backpressure(), engine.Reads)
	if s.Stalled.Load() == 0 || d.level == Types && d.choose.Choose(2) == 1 {
		return
	}
	d.bounds.stopped[s.Number] = true
	d.g.Note(func() string { return fmt.Sprintf("%s stops: %s", s.Name, s.HeldUpBy()) })
}

// Arrived implements [engine.Driver].
func (d *Simulation) Arrived(l *engine.Edge) {
	if d.bounds.outputs && l.To.Full() {
		d.footprint.touch(l.To.Capacity(), engine.Writes)
		l.Stall()
	}
	l.To.Mu.Unlock()
}

// fills records that the move sends a record to a location, or takes one, if a sender ever has to wait for space there.
func (d *Simulation) fills(s *engine.Location) {
	if o := s.Capacity(); d.footprint.read[o] {
		d.footprint.touch(o, engine.Adds)
	}
}

// freesSpace records that the move takes one of the records that wait at a location. Senders that wait for space depend on that,
// and locations that were stopped because the queue was full continue. It is called with the location's mu held.
func (d *Simulation) freesSpace(s *engine.Location) {
	d.fills(s)
	if s.Full() {
		d.footprint.touch(s.Capacity(), engine.Writes)
	}
	s.ResumeStalled()
}
