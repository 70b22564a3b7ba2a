package model

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A logDrivenFlow builds a log-driven flow. The functions of the flow report what they see to
// see.
type logDrivenFlow func(f *dataflow.Flow, see func(string))

// A logDrivenRun is one run of a log-driven flow, from its start or from saved state.
type logDrivenRun struct {
	graph     *engine.Graph
	executor  *logdriven.Executor   // of the first location
	executors []*logdriven.Executor // of all locations
	seen      []string
	calls     chan string // answers of asynchronous calls
	end       context.CancelFunc
	unsaved   bool // the state is not saved between steps
}

func (flow logDrivenFlow) run() (r *logDrivenRun, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	r = &logDrivenRun{calls: make(chan string, 1000)}
	f := newLed(dataflow.Options{Buffer: 8}, durable.CBOR(), func(record []byte) error {
		r.calls <- string(record)
		return nil
	})
	flow(f, func(s string) { r.seen = append(r.seen, s) })
	g := graphOf(f)
	ctx, cancel := context.WithCancel(context.Background())
	r.end = cancel
	g.Start(ctx)
	r.graph = g
	for i := range g.NumLocations() {
		r.executors = append(r.executors, logdriven.NewExecutor(g, i))
	}
	r.executor = r.executors[0]
	return r, nil
}

// origin is the time at which histories begin: the middle of a minute.
const origin = int64(90 * time.Second)

// A logDrivenStep is a step of a history.
type logDrivenStep struct {
	location int
	now      int64
	records  [][]byte
}

// An outcome is the full result of a step: its outputs, and the state that the next step
// depends on.
type outcome struct {
	outputs, refused, seen string
	kept, next             string
	saved                  []string // by location
}

// outcome returns the outcome of a step.
func (r *logDrivenRun) outcome(e logdriven.Emission) (o outcome, err error) {
	o.outputs, o.refused, o.seen = string(e.Outputs), fmt.Sprint(e.Refused), fmt.Sprint(r.seen)
	r.seen = nil
	return o, r.between(&o)
}

// between sets the fields of o that describe the state between two steps.
func (r *logDrivenRun) between(o *outcome) error {
	if err := r.graph.Scrub(true); err != nil {
		return err
	}
	o.saved = nil
	for _, l := range r.executors {
		if r.unsaved {
			break
		}
		saved, err := l.Save(nil)
		if err != nil {
			return fmt.Errorf("Save: %w", err)
		}
		o.saved = append(o.saved, string(saved))
	}
	kept, err := r.executor.Outputs(nil)
	if err != nil {
		return fmt.Errorf("Outputs: %w", err)
	}
	// Deadline may return a time before the next timer is due, so only compare whether one exists.
	_, ok := r.executor.Deadline()
	o.kept, o.next = string(kept), fmt.Sprint(ok, r.executor.Full())
	return nil
}

func (o outcome) differs(from outcome) error {
	for _, x := range []struct{ what, a, b string }{
		{"the functions saw", o.seen, from.seen}, {"the outputs gave", o.outputs, from.outputs},
		{"refused was", o.refused, from.refused}, {"the outputs keep", o.kept, from.kept},
		{"a timer waits, and an output is full:", o.next, from.next}, {"the saved state is", fmt.Sprintf("%q", o.saved), fmt.Sprintf("%q", from.saved)},
	} {
		if x.a != x.b {
			return fmt.Errorf("%s %q, and without an interruption %q", x.what, x.a, x.b)
		}
	}
	return nil
}

func (r *logDrivenRun) step(s logDrivenStep) (outcome, error) {
	e, err := r.executors[s.location].Step(s.now, s.records, nil)
	if err != nil {
		return outcome{}, err
	}
	return r.outcome(e)
}

// begun starts a run and returns it with the outcome of its start.
func (flow logDrivenFlow) begun() (r *logDrivenRun, o outcome, err error) {
	if r, err = flow.run(); err != nil {
		return nil, o, err
	}
	e, err := r.executor.Begin(origin)
	for _, l := range r.executors[1:] {
		if err == nil {
			_, err = l.Begin(origin)
		}
	}
	if err != nil {
		return nil, o, err
	}
	o, err = r.outcome(e)
	return r, o, err
}

// again repeats the steps of a history and compares each outcome. Before a step for which
// interrupted returns true, it restores the flow from saved state in a new run.
func (flow logDrivenFlow) again(steps []logDrivenStep, want []outcome, interrupted func() bool) error {
	r, got, err := flow.begun()
	if err != nil {
		return err
	}
	defer func() { r.end() }()
	if err := got.differs(want[0]); err != nil {
		return fmt.Errorf("at the start: %w", err)
	}
	for i, s := range steps {
		if interrupted() {
			r.end()
			if r, err = flow.run(); err != nil {
				return err
			}
			for j, l := range r.executors {
				if err := l.Load([]byte(want[i].saved[j]), origin, false); err != nil {
					return fmt.Errorf("before step %d: Load: %w", i+1, err)
				}
			}
			r.seen = nil
			loaded := outcome{outputs: want[i].outputs, refused: want[i].refused, seen: want[i].seen}
			if err := r.between(&loaded); err != nil {
				return err
			}
			if err := loaded.differs(want[i]); err != nil {
				return fmt.Errorf("before step %d, after Load: %w", i+1, err)
			}
		}
		if got, err = r.step(s); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		if err := got.differs(want[i+1]); err != nil {
			return fmt.Errorf("step %d at %v: %w", i+1, time.Duration(s.now), err)
		}
	}
	return nil
}

// threeWays runs a flow without interruption, with the steps that next returns. It then
// repeats the steps in three ways: without a restore, with a restore before each step, and
// with a restore before some steps.
func (flow logDrivenFlow) threeWays(rng *rand.Rand, next func(r *logDrivenRun) (logDrivenStep, bool)) error {
	r, o, err := flow.begun()
	if err != nil {
		return err
	}
	defer func() { r.end() }()
	var steps []logDrivenStep
	want := []outcome{o}
	for {
		s, ok := next(r)
		if !ok {
			break
		}
		if o, err = r.step(s); err != nil {
			return fmt.Errorf("step %d: %w", len(want), err)
		}
		steps, want = append(steps, s), append(want, o)
	}
	for _, way := range []struct {
		name        string
		interrupted func() bool
	}{
		{"replayed", func() bool { return false }},
		{"restored before each step", func() bool { return true }},
		{"restored before some steps", func() bool { return rng.IntN(3) == 0 }},
	} {
		if err := flow.again(steps, want, way.interrupted); err != nil {
			return fmt.Errorf("%s: %w", way.name, err)
		}
	}
	if err := flow.cuts(rng, steps, want); err != nil {
		return fmt.Errorf("written at cuts: %w", err)
	}
	return nil
}
