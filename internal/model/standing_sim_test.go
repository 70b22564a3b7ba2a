package model

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// What the simulator does not offer today, or offers in another way, although production
// does it. A flow that can do something of the first kind is not led through the simulator;
// the rules and the model still check it.
//
//   - exchanges (H3): a location comes to rest before those that it sends to take anything,
//     unless the chooser holds it up, so most interleavings of two locations are missing,
//   - timers (H4): time passes before a record only as far as the durations of timers that
//     were set before ask for.
//
// The others are no event of a plan, and so nothing of them can be seen here:
//
//   - calls (H5): each call of a MapAsync is made at once, so the order in which functions
//     run is one; when answers are taken is offered in full, and more than production has if
//     Concurrency is limited (H6),
//   - a full output (H7) never stops a location of the simulator; here one that is stopped
//     takes nothing, which is offered,
//   - reads (H3 within a location, H8): a location runs only when somebody waits. Which
//     versions readers see is checked by [course.explain] instead.
//
// H12 is the order within a step: an operator that takes that order for its
// own, such as MergeOrdered of a stream and what is made of it, gives [a b a' b'] for a step
// of two records, and only [a a' b b'] in the simulator, which takes them one by one. What
// derives from it is not compared, see [Program.arranges]; if it is fed back by a cycle, other
// records are taken, and the flow is not led.
var notOffered = []struct {
	hole string
	has  func(s *script) bool
}{
	{"H3", func(s *script) bool { return s.moves >= 0 || s.p.sendsOut() }},
	{"H4", func(s *script) bool { return s.p.hasTimers() }},
	{"H12", func(s *script) bool { return s.p.loopsArranged() }},
}

// sendsOut reports whether something in the program goes to another location and back.
func (p *Program) sendsOut() bool {
	for i := range p.nodes {
		switch p.nodes[i].op.name {
		case "dataflow.Send", "keyedstream.Send", "keyedsingleton.Send", "keyedstream.Divide":
			return true
		}
	}
	return false
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

// guided is a membership that leads the simulator through the run: each event must be among
// what it offers, and what its outputs show after each step must be what they showed.
type guided struct {
	*flowing
	steps *simulate.Simulation
	step  int

	// of the guide
	want  simulate.Event
	asked bool
	err   error
}

// newGuided returns the simulator as a membership, or why the script is not led through it.
func newGuided(s *script) (m *guided, hole string) {
	for _, x := range notOffered {
		if x.has(s) {
			return nil, x.hole
		}
	}
	flow := dataflow.New()
	m = &guided{step: -1}
	m.steps = simulate.Drive(graphOf(flow), m, nil, true)
	m.flowing = raise(context.Background(), s, flow)
	return m, ""
}

// Choose implements [simulate.Chooser]. It is asked whether slices are cut later: time does
// not pass, and nothing is held up, in what is led.
func (m *guided) Choose(int) int {
	if m.want.Cut {
		return 0
	}
	return 1
}

// Next implements [simulate.Guide].
func (m *guided) Next(all []simulate.Offer) int {
	m.asked = true
	value := fmt.Sprint(m.want.Value)
	if m.want.Key != nil {
		value = fmt.Sprint(m.want.Key, ":", m.want.Value)
	}
	for i, o := range all {
		if m.want.In != nil && o.In != nil && o.In.Number() == m.want.In.Number() && o.Value == value {
			return i
		}
	}
	m.err = fmt.Errorf("not offered: there is %v", all)
	return 0
}

func (m *guided) possible(w *walk, e simulate.Event) error {
	if m.step != e.Step { // the simulator goes on before a cut only if something waits
		m.step = e.Step
		for _, x := range w.whole.eventsOf(e.Step) {
			if x.slice < 0 && m.p.nodes[x.node].op.edge == input {
				if err := m.sends[x.node](x.key, x.value); err != nil {
					return err
				}
			}
		}
	}
	m.want, m.asked, m.err = e, false, nil
	switch {
	case e.Start:
		_, m.err = dataflow.Start(context.Background(), m.flow)
		return m.err
	case !m.steps.Step():
		return fmt.Errorf("not offered: nothing is")
	case m.err == nil && m.asked == e.Cut:
		return fmt.Errorf("not offered: a record was taken: %v", m.asked)
	}
	return m.err
}

func (m *guided) stepped(w *walk, step int) error {
	return m.shows(w.whole, step, "in the simulator")
}

func (m *guided) ended(*walk) error { return nil }
