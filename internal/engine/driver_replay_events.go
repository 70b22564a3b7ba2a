package engine

import (
	"fmt"
	"reflect"
	"time"
)

// An Event is an elementary part of a recorded step. A step is its start if it is the first,
// the timers of each deadline that is due, each record that it takes, and the cut of the
// slices that have news then. Exactly one of Start, Fire, In and Cut says which it is.
type Event struct {
	Step int   // number of the step in the recording
	Site int   // number of its location
	Now  int64 // the logical time of the step: 0 if no operator has read it

	Start bool
	Fire  bool
	Due   int64 // the deadline that fires
	In    *Op   // the input from which a record is taken
	Key   any   // of the record, or nil
	Value any   // of the record
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
	return fmt.Sprintf("step %d at location %d, at %v: %s", m.Step, m.Site, time.Duration(m.Now), what)
}

// Events makes the next step of the recording one event at a time, and reports whether there
// was a step. It calls possible before each event, with the graph as it is then, and returns
// the first error. Between the events of a step its outputs show what only production's
// readers never see: half of a step.
func (d *Replay) Events(possible func(Event) error) (more bool, err error) {
	if d.g.Err() != nil || d.made == d.from.Len() {
		return false, d.g.Err()
	}
	s, p, err := d.next()
	if err != nil {
		return false, err
	}
	at := Event{Step: d.made - 1, Site: s.number, Now: p.Now}
	move := func(m Event, part Plan) error {
		if err := possible(m); err != nil {
			return err
		}
		if !d.perform(s, &part) {
			return d.g.Err()
		}
		return nil
	}
	if p.Start {
		m := at
		m.Start = true
		if err := move(m, Plan{Now: p.Now, Start: true, Cut: CutNone}); err != nil {
			return false, err
		}
	}
	if p.Fire {
		for i := range s.timers {
			s.timers[i].skip(p.Now) // as the whole step does: of an interval only the last firing happens
		}
		for due, ok := s.deadline(); ok && due <= p.Now; due, ok = s.deadline() {
			m := at
			m.Fire, m.Due = true, due
			if err := move(m, Plan{Now: due, Fire: true, Cut: CutNone}); err != nil {
				return false, err
			}
		}
	}
	for _, t := range p.Take {
		for range t.N {
			m := at
			m.In = s.ops[t.Op]
			m.Key, m.Value = recordOf(s.inputs[t.Op].copyTaken(0, 1))
			if err := move(m, Plan{Now: p.Now, Take: []Take{{Op: t.Op, N: 1}}, Cut: CutNone}); err != nil {
				return false, err
			}
		}
	}
	for _, r := range s.regions {
		if r.news && p.Cut.has(r) {
			m := at
			m.Cut = true
			return true, move(m, Plan{Now: p.Now, Cut: p.Cut})
		}
	}
	return true, nil
}

// News returns how many slices of a location have news, which a cut would run.
func (d *Replay) News(site int) (n int) {
	for _, r := range d.g.sites[site].regions {
		if r.news {
			n++
		}
	}
	return n
}

// Deadline returns the earliest deadline of the timers of a location that are pending.
func (d *Replay) Deadline(site int) (at int64, ok bool) { return d.g.sites[site].deadline() }

// Site returns the number of the location that made a step.
func (r *Recording) Site(step int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.plans[step].site
}

// Ops returns the operators of location number i so far, in order of construction.
func (g *Graph) Ops(i int) []*Op { return g.sites[i].ops }

// Number returns the number of op among those of its location.
func (op *Op) Number() int { return int(op.index) }

// recordOf returns the key and the value of the one record that copyTaken returned.
func recordOf(records any) (k, v any) {
	if c, ok := records.(interface{ record() (k, v any) }); ok {
		return c.record()
	}
	return nil, reflect.ValueOf(records).Index(0).Interface()
}

func (c columns[K, V]) record() (k, v any) { return c.k[0], c.v[0] }
