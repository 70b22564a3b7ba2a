package model

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// What the simulator does not offer today, or offers in another way, although production
// does it. A flow that can do something of the last kind is not led through the simulator;
// the rules and the model still check it. The others are no event of a plan, and so nothing of
// them can be seen here:
//
//   - calls: when answers are taken is offered in full, and more than production has if
//     Concurrency is limited (H6),
//   - a full output (H7) never stops a location of the simulator; here one that is stopped
//     takes nothing, which is offered.
//
// H12 is the order within a step: an operator that takes that order for its
// own, such as MergeOrdered of a stream and what is made of it, gives [a b a' b'] for a step
// of two records, and only [a a' b b'] in the simulator, which takes them one by one. What
// derives from it is not compared, see [Program.arranges]; if it is fed back by a cycle, other
// records are taken, and the flow is not led.
//
// An Interval fires for ever in production, and in the simulator three times unless something comes
// in: a flow that has one is not led.
var notOffered = []struct {
	hole string
	has  func(s *script) bool
}{
	{"intervals", func(s *script) bool {
		return slices.ContainsFunc(s.p.nodes, func(x node) bool { return x.op.name == "dataflow.Interval" })
	}},
	{"H12", func(s *script) bool { return s.p.loopsArranged() || s.p.sendsArranged(s.moves) }},
}

// loopsArranged reports whether a cycle feeds back what derives from the order of a step.
func (p *Program) loopsArranged() bool {
	for i := range p.nodes {
		if p.nodes[i].op.edge == looped && p.arranges(i) {
			return true
		}
	}
	return false
}

// sendsArranged reports whether what derives from the order of a step is sent to another location:
// node i, if it is one, or another.
func (p *Program) sendsArranged(i int) bool {
	if i >= 0 && p.arranges(i) {
		return true
	}
	for i := range p.nodes {
		switch p.nodes[i].op.name {
		case "dataflow.Send", "keyedstream.Send", "keyedsingleton.Send", "keyedstream.Divide":
			if p.arranges(i) {
				return true
			}
		}
	}
	return false
}

// simulatedRun is a membership that leads the simulator through the run: each event must be among
// what it offers, and what its outputs show after each step must be what they showed.
type simulatedRun struct {
	*flowing
	steps  *simulate.Simulation
	step   int
	passed int   // elements that waited where a type gives up an order
	now    int64 // of the step
	fired  bool  // its timers have
}

// newSimulatedRun returns the simulator as a membership, or why the script is not led through it.
func newSimulatedRun(s *script) (m *simulatedRun, hole string) {
	for _, x := range notOffered {
		if x.has(s) {
			return nil, x.hole
		}
	}
	flow := dataflow.New()
	m = &simulatedRun{step: -1}
	m.steps = simulate.Drive(graphOf(flow), m, nil, simulate.Known{})
	m.flowing = raise(context.Background(), s, flow)
	return m, ""
}

// Choose implements [simulate.Chooser]. No record comes again in what is led.
func (m *simulatedRun) Choose(int) int { return 0 }

// Time implements [simulate.Timekeeper]: the clock shows what it showed in production.
func (m *simulatedRun) Time(p simulate.Passing) int64 { return max(m.now, p.Earliest) }

// Clock implements [simulate.Timekeeper]: a location has one.
func (m *simulatedRun) Clock(usual int) int { return usual }

func (m *simulatedRun) possible(w *walk, e simulate.Event) error {
	if m.now = e.Now; m.step != e.Step {
		m.step, m.fired = e.Step, false
		if e.Location != 0 {
			return m.makes(w, e)
		}
		for _, x := range w.whole.eventsOf(e.Step) {
			if x.slice < 0 && m.p.nodes[x.node].op.edge == input {
				if err := m.sends[x.node](x.key, x.value); err != nil {
					return err
				}
			}
		}
	}
	return m.makes(w, e)
}

// makes makes an event.
func (m *simulatedRun) makes(w *walk, e simulate.Event) error {
	if e.Start {
		if graphOf(m.flow).Begun() {
			return nil // the first step of another location
		}
		if _, err := dataflow.Start(context.Background(), m.flow); err != nil {
			return err
		}
		return m.pass()
	}
	if err := m.call(); err != nil {
		return err
	}
	switch {
	case e.Fire:
		return m.fire(e)
	case !e.Cut:
		return m.take(e)
	}
	// Each slice is cut by itself, those that follow from another one behind it.
	for n := 0; ; n++ {
		all := m.steps.Offers()
		i := slices.IndexFunc(all, func(o simulate.Move) bool { return o.Cuts() && int(o.Location) == e.Location })
		switch {
		case i >= 0:
			if err := m.steps.Make(all[i]); err != nil {
				return err
			}
		case n > 0:
			return nil
		default:
			return fmt.Errorf("not offered: there is %v", all)
		}
	}
}

// call makes all calls that can be made: their functions depend on nothing else.
func (m *simulatedRun) call() error {
	for {
		all := m.steps.Offers()
		i := slices.IndexFunc(all, func(o simulate.Move) bool { return o.Kind == simulate.Calls })
		if i < 0 {
			return nil
		}
		if err := m.steps.Make(all[i]); err != nil {
			return err
		}
	}
}

// fire fires all timers that are due at the time of the step. The walk makes an event of each of
// their deadlines.
func (m *simulatedRun) fire(e simulate.Event) error {
	if m.fired {
		return nil
	}
	m.fired = true
	m.steps.Pass(int32(e.Location), e.Now)
	all := m.steps.Offers()
	for _, o := range all {
		if o.Kind == simulate.Fires && int(o.Location) == e.Location {
			return m.steps.Make(o)
		}
	}
	return fmt.Errorf("not offered: there is %v", all)
}

// take takes the record of an event.
func (m *simulatedRun) take(e simulate.Event) error {
	value := fmt.Sprint(e.Value)
	if e.Key != nil {
		value = fmt.Sprint(e.Key, ":", e.Value)
	}
	all := m.steps.Offers()
	for _, o := range all {
		if in := o.In(); in != nil && int(o.Location) == e.Location && in.Number() == e.In.Number() && o.Value() == value {
			if err := m.steps.Make(o); err != nil {
				return err
			}
			return m.pass()
		}
	}
	return fmt.Errorf("not offered: there is %v", all)
}

// pass has go on what waits where a type gives up an order, in the order in which it came: in
// production nothing waits there.
func (m *simulatedRun) pass() error {
	for {
		all := m.steps.Offers()
		i := slices.IndexFunc(all, func(o simulate.Move) bool { return o.In() != nil && o.In().Loosens() && o.First() })
		if i < 0 {
			return nil
		}
		m.passed++
		if err := m.steps.Make(all[i]); err != nil {
			return err
		}
	}
}

func (m *simulatedRun) stepped(w *walk, step int) error {
	if historyOf(&w.run.recording).Location(step) != 0 {
		return nil
	}
	return m.shows(w.whole, step, "in the simulator")
}

func (m *simulatedRun) ended(*walk) error { return nil }
