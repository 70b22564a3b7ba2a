package model

import (
	"context"
	"fmt"
	"slices"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine/simulate"
)

// A membership checks whether each event of a recorded run could happen. It is called for
// every event, in order and before the event happens, and at the end of each step. The rules
// of this test are one membership. A simulator that repeats the run is another.
type membership interface {
	// possible returns why e cannot happen in the state of w, or nil. If it returns nil, the
	// membership treats e as having happened.
	possible(w *walk, e simulate.Event) error
	// stepped is called when all events of a step have happened.
	stepped(w *walk, step int) error
	// ended is called after the last step. It returns an error if something is missing.
	ended(w *walk) error
}

// A walk replays a recorded run, one elementary event at a time.
type walk struct {
	*flowing
	run   *production  // the recorded run
	whole *replayedRun // its replay by whole steps
	steps *simulate.Replay
}

// walkThrough checks each event of a run with ms. At the end of each step it compares the
// outputs with those of the same step made as a whole.
func walkThrough(r *production, whole *replayedRun, ms ...membership) error {
	flow := dataflow.New()
	w := &walk{run: r, whole: whole, steps: simulate.NewReplay(graphOf(flow), historyOf(&r.recording), nil)}
	w.flowing = raise(context.Background(), r.s, flow)
	if _, err := dataflow.Start(context.Background(), flow); err != nil {
		return err
	}
	for step := range r.recording.Steps() {
		before := len(w.builder.events)
		var happens []string
		if _, err := w.steps.Events(func(e simulate.Event) error {
			happens = append(happens, e.String())
			for _, m := range ms {
				if err := m.possible(w, e); err != nil {
					return fmt.Errorf("%v: not possible: %w", e, err)
				}
			}
			return nil
		}); err != nil {
			return err
		}
		for _, m := range ms {
			if err := m.stepped(w, step); err != nil {
				return fmt.Errorf("after step %d: %w", step, err)
			}
		}
		if historyOf(&r.recording).Location(step) != 0 {
			continue
		}
		if err := w.sameAs(whole, step, before); err != nil {
			return fmt.Errorf("%w\nthe step is %q", err, happens)
		}
	}
	for _, m := range ms {
		if err := m.ended(w); err != nil {
			return fmt.Errorf("at the end: %w", err)
		}
	}
	return nil
}

// sameAs compares a step that was made event by event with the same step made as a whole.
func (w *walk) sameAs(whole *replayedRun, step, before int) error {
	if got, want := w.fired(w.builder.events[before:]), w.fired(whole.eventsOf(step)); !slices.Equal(got, want) {
		return fmt.Errorf("in step %d timers fire as %v, and one deadline after the other as %v", step, want, got)
	}
	return w.shows(whole, step, "if its events happen one after the other")
}

// shows compares the outputs with those of the whole replay after a step.
func (f *flowing) shows(whole *replayedRun, step int, when string) error {
	for i, r := range f.reads {
		if f.p.arranges(r.node) {
			continue
		}
		if got, want := r.shown(), whole.at(i, step).text; got != want {
			return fmt.Errorf("after step %d output %d of n%d is %s, and %s %s", step, i, r.node, want, when, got)
		}
	}
	return nil
}

// A firing is an entry that a timer released.
type firing struct{ node, key, value int }

// fired returns the entries that timers released, in order.
func (f *flowing) fired(events []event) (all []firing) {
	for _, e := range events {
		if e.slice >= 0 {
			continue
		}
		if op := f.p.nodes[e.node].op; op.edge == timed && !op.concurrent && !op.shows && !f.p.arranges(e.node) {
			all = append(all, firing{e.node, e.key, e.value})
		}
	}
	return all
}

// eventsOf returns what happened in a step.
func (c *replayedRun) eventsOf(step int) []event {
	i, _ := slices.BinarySearch(c.steps, step)
	before := -1
	if i > 0 {
		before = c.steps[i-1]
	}
	return c.builder.events[c.events[before]:c.events[step]]
}

// at returns what output i shows after a step.
func (c *replayedRun) at(i, step int) version {
	all := c.versions[i]
	n := len(all) - 1
	for all[n].step > step {
		n--
	}
	return all[n]
}

// arranges reports whether node i derives from an operator that depends on the order in which
// elements arrive within a step. In a step of several records the whole batch goes along one
// path and then along the other. Event by event, each record goes along both paths before the
// next record, so the results may differ. The simulator, which takes records one by one, does
// not offer the order of the batch.
func (p *Program) arranges(i int) bool {
	seen := make([]bool, len(p.nodes))
	var from func(i int) bool
	from = func(i int) bool {
		if i < 0 || seen[i] {
			return false
		}
		seen[i] = true
		x := &p.nodes[i]
		return x.op.edge == arranged || slices.ContainsFunc(x.args, from) || from(x.keep)
	}
	return from(i)
}
