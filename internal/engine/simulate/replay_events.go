package simulate

import (
	"fmt"
	"reflect"
	"time"

	"github.com/millrace/millrace/internal/engine"
)

// An Event is an elementary part of a recorded step. A step consists of its start if it is the first, the timers of each deadline
// that is due, each record that it takes, and the cut of the slices that then have news. Exactly one of Start, Fire, In and Cut
// says which part it is.
type Event struct {
	Step     int   // number of the step in the recording
	Location int   // number of its location
	Now      int64 // the logical time of the step: 0 if no operator has read it

	Start bool
	Fire  bool
	Due   int64      // the deadline that fires
	In    *engine.Op // the input from which a record is taken
	Key   any        // of the record, or nil
	Value any        // of the record
	Cut   bool
}

// String returns the event as failures print it.
func (m Event) String() string {
	var what string
	switch {
	case m.Start:
		what = "start"
	case m.Fire:
		what = fmt.Sprintf("fire what is due at %v", time.Duration(m.Due))
	case m.Cut:
		what = "cut"
	case m.Key != nil:
		what = fmt.Sprintf("take %v:%v of %s", m.Key, m.Value, m.In)
	default:
		what = fmt.Sprintf("take %v of %s", m.Value, m.In)
	}
	return fmt.Sprintf("step %d at location %d, at %v: %s", m.Step, m.Location, time.Duration(m.Now), what)
}

// Events makes the next step of the recording one event at a time, and reports whether there was a step. Before each event it
// calls possible, with the graph as it is then, and returns the first error. Between the events of a step the outputs show half
// of a step, which readers in production never see.
func (d *Replay) Events(possible func(Event) error) (more bool, err error) {
	if d.g.Err() != nil || d.made == d.from.Len() {
		return false, d.g.Err()
	}
	s, p, err := d.next()
	if err != nil {
		return false, err
	}
	at := Event{Step: d.made - 1, Location: s.Number, Now: p.Now}
	move := func(m Event, part engine.Plan) error {
		if err := possible(m); err != nil {
			return err
		}
		if !d.Perform(s, &part) {
			return d.g.Err()
		}
		return nil
	}
	if p.Start {
		m := at
		m.Start = true
		if err := move(m, engine.Plan{Now: p.Now, Start: true, Origin: p.Origin, Cut: engine.CutNone}); err != nil {
			return false, err
		}
	}
	if p.Fire {
		s.Hear(p.Take, p.Now) // as in the whole step
		for i := range s.Timers {
			s.Timers[i].Skip(p.Now) // as in the whole step: only the last firing of an interval happens
		}
		for due, ok := s.Deadline(); ok && due <= p.Now; due, ok = s.Deadline() {
			m := at
			m.Fire, m.Due = true, due
			if err := move(m, engine.Plan{Now: due, Fire: true, Cut: engine.CutNone}); err != nil {
				return false, err
			}
		}
	}
	for _, t := range p.Take {
		for range t.N {
			m := at
			m.In = s.Ops[t.Op]
			m.Key, m.Value = recordOf(s.Inputs[t.Op].CopyTaken(0, 1))
			if err := move(m, engine.Plan{Now: p.Now, Take: []engine.Take{{Op: t.Op, N: 1}}, Cut: engine.CutNone}); err != nil {
				return false, err
			}
		}
	}
	for _, r := range s.Regions {
		if r.News && p.Cut.Has(r) {
			m := at
			m.Cut = true
			return true, move(m, engine.Plan{Now: p.Now, Cut: p.Cut})
		}
	}
	return true, nil
}

// News returns how many slices of a location have news, and would run in a cut.
func (d *Replay) News(location int) (n int) {
	for _, r := range d.g.Locations[location].Regions {
		if r.News {
			n++
		}
	}
	return n
}

// Deadline returns the earliest deadline of the pending timers of a location.
func (d *Replay) Deadline(location int) (at int64, ok bool) {
	return d.g.Locations[location].Deadline()
}

// recordOf returns the key and the value of the one record that CopyTaken returned.
func recordOf(records any) (k, v any) {
	if c, ok := records.(interface{ Record() (k, v any) }); ok {
		return c.Record()
	}
	return nil, reflect.ValueOf(records).Index(0).Interface()
}
