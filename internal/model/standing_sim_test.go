package model

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// notOffered lists what production does and the simulator does not offer, or offers in another
// way. A flow that can do any of it is not run in the simulator. The rules and the model still
// check it. doc/testing-engine.md lists H6, H7 and H12.
//
// Two further differences are not events of a plan, so this test cannot observe them:
//
//   - If Concurrency is limited, the simulator offers more orders of answers than production
//     has (H6).
//   - A full output never stops a location of the simulator (H7). A location that is stopped in
//     production takes no records, which the simulator offers too.
//
// H12 is the order within a step. Some operators depend on that order, such as MergeOrdered of
// a stream and a stream derived from it. For a step of two records it returns [a b a' b'] in
// production. In the simulator, which takes the records one by one, it returns [a a' b b'].
// Nodes that derive from such an operator are not compared, see [Program.arranges]. If a cycle
// feeds such a node back, the flow takes other records and is not run in the simulator.
//
// An Interval fires forever in production. In the simulator it fires three times unless a record
// arrives, so a flow with an Interval is not run there.
var notOffered = []struct {
	hole string
	has  func(s *script) bool
}{
	{"intervals", func(s *script) bool {
		return slices.ContainsFunc(s.p.nodes, func(x node) bool { return x.op.name == "dataflow.Interval" })
	}},
	{"H12", func(s *script) bool { return s.p.loopsArranged() || s.p.sendsArranged(s.moves) }},
}

// loopsArranged reports whether a cycle feeds back a node that derives from the order of a step.
func (p *Program) loopsArranged() bool {
	for i := range p.nodes {
		if p.nodes[i].op.edge == looped && p.arranges(i) {
			return true
		}
	}
	return false
}

// sendsArranged reports whether a node that derives from the order of a step is sent to another
// location. It checks node i, unless i is negative, and all nodes that send.
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

// simulatedRun is a membership that repeats the run in the simulator. The simulator must offer
// each event, and its outputs must show the same after each step.
type simulatedRun struct {
	*flowing
	steps  *simulate.Simulation
	step   int
	passed int   // number of elements that waited where a type gives up an order
	now    int64 // the time of the step
	fired  bool  // the timers of the step have fired
}

// newSimulatedRun returns the simulator as a membership, or why the script is not run in it.
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

// Choose implements [simulate.Chooser]. No record is repeated in this run.
func (m *simulatedRun) Choose(int) int { return 0 }

// Time implements [simulate.Timekeeper]: the clock shows what it showed in production.
func (m *simulatedRun) Time(p simulate.Passing) int64 { return max(m.now, p.Earliest) }

// Clock implements [simulate.Timekeeper]: a location has one clock.
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

// makes makes the event e happen in the simulator.
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
	// The simulator cuts the slices one by one. A slice that follows from another is cut after it.
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

// call makes all calls that can be made. When they are made does not matter: their functions
// depend only on their arguments.
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

// fire fires all timers that are due at the time of the step. It does so at the first event: the
// walk has an event for each of their deadlines.
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

// pass releases the elements that wait where a type gives up an order, in the order in which
// they arrived. In production nothing waits there.
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
