package simulate

import "github.com/millrace/millrace/internal/engine"

// A Level says how much can happen in a simulation.
type Level uint8

const (
	// Types allows everything that the types of a program allow.
	Types Level = iota
	// Engine allows what the loop of this engine can do: a location takes what it has accepted in that order. A step takes one or
	// several records and ends with a cut of all slices that have news; then outputs show the results. Calls begin in the order
	// in which they were requested.
	Engine
)

// SetLevel sets how much can happen; the default is [Types]. It is called before the graph is started.
func (d *Simulation) SetLevel(l Level) { d.level = l }

// A partialStep is the part of a step that was made so far, at level Engine.
type partialStep struct {
	gathers bool // steps take several records; see [engine.Location.Gathers]
	started bool
	given   []engine.Object // outputs to which the step's timers gave something
	plan    engine.Plan     // the rest of the step
}

// partialStep returns the unfinished step of a location.
func (d *Simulation) partialStep(s *engine.Location) *partialStep { return &d.partialSteps[s.Number] }

// stepsOf is movesOf at level Engine.
func (d *Simulation) stepsOf(s *engine.Location, all []Move) []Move {
	at, h := int32(s.Number), d.partialStep(s)
	if h.started {
		all = append(all, Move{Name: Name{Ends, at, 0, 0}, loc: s})
	}
	if in := s.FirstAccepted(); in != nil {
		all = append(all, Move{Name: Name{Takes, at, 0, 0}, loc: s, in: in})
	}
	all = d.answersOf(s, d.callsOf(s, d.resumesOf(s, all)))
	if len(h.plan.Take) == 0 { // timers come first in a step
		all = d.timersOf(s, all)
	}
	return all
}

// answersOf adds the answers of made calls, which wait to be accepted at level Engine.
func (d *Simulation) answersOf(s *engine.Location, all []Move) []Move {
	for _, calls := range d.calling[s.Number] {
		for i := range calls.Made() {
			all = append(all, Move{Name: Name{Answers, int32(s.Number), calls.Operator().Index, calls.MadeID(i)}, loc: s, calls: calls, call: i})
		}
	}
	return all
}

// takeFirst takes the oldest accepted record of the location.
func (d *Simulation) takeFirst(m *Move) {
	s, h := m.loc, d.partialStep(m.loc)
	op := m.in.Base().Op
	d.footprint.touch(s.Inbox(), engine.Takes)
	d.footprint.effect.Took = append(d.footprint.effect.Took, s.Inbox())
	d.progresses(m.in.Base())
	s.Mu.Lock()
	d.freesSpace(s)
	s.TakeFirst()
	s.Mu.Unlock()
	if n := len(h.plan.Take); n > 0 && h.plan.Take[n-1].Op == op.Index {
		h.plan.Take[n-1].N++
	} else {
		h.plan.Take = append(h.plan.Take, engine.Take{Op: op.Index, N: 1})
	}
	h.started = true
	if !h.gathers {
		d.endStep(s)
		return
	}
	d.footprint.touch(s.PartialStep(), engine.Writes)
}

// fireFirst begins a step with the timers of one deadline.
func (d *Simulation) fireFirst(m *Move) {
	s, h := m.loc, d.partialStep(m.loc)
	if !h.gathers {
		d.fire(s, m.clock, m.deadline)
		d.Perform(s, &engine.Plan{})
		return
	}
	d.footprint.touch(s.PartialStep(), engine.Writes)
	h.started = true
	d.firing = h
	d.fire(s, m.clock, m.deadline)
	d.firing = nil
}

// endStep ends a step: all slices that have news are cut, and outputs show the results.
func (d *Simulation) endStep(s *engine.Location) {
	h := d.partialStep(s)
	was := *h
	*h = partialStep{gathers: was.gathers}
	if was.gathers {
		d.footprint.touch(s.PartialStep(), engine.Writes)
	}
	for _, o := range was.given {
		d.Gives(o)
	}
	for _, t := range was.plan.Take {
		if _, ok := s.Inputs[t.Op].(*engine.Ending); ok {
			d.footprint.touch(s.Times(), engine.Writes)
			d.footprint.touch(s.Marks(), engine.Writes)
		}
	}
	d.Perform(s, &was.plan)
}
