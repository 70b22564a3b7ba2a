package simulate

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/token"
)

// A Replay repeats the steps of a recording. Nothing is accepted and nothing is sent: the results of locations, cycles and
// asynchronous calls are in the recording.
type Replay struct {
	g    *engine.Graph
	from *engine.Recording
	made int   // number of plans of from whose steps were made
	last int64 // the time of the latest

	refused error // why the recording does not fit
}

// NewReplay makes an empty graph repeat the steps of a recording.
func NewReplay(g *engine.Graph, from *engine.Recording, watch engine.Watcher) *Replay {
	d := &Replay{g: g, from: from}
	g.Driver, g.Settings.Watch, g.Settings.Steady = d, watch, true
	return d
}

// Prepare implements [engine.Driver].
func (d *Replay) Prepare(g *engine.Graph) {
	for _, s := range g.Locations {
		s.NoEnd()
	}
}

// Start does nothing: the first step of a location is in the recording.
func (d *Replay) Start(*engine.Location) {}

// Now implements [engine.Driver].
func (d *Replay) Now(*engine.Location) int64 { return max(d.last, 1) }

// Step makes the next step and reports whether there was one.
func (d *Replay) Step() bool {
	d.from.Mu.Lock()
	defer d.from.Mu.Unlock()
	if d.g.Err() != nil || d.refused != nil {
		return false
	}
	if d.made == len(d.from.Plans) {
		return settleAny(d.g)
	}
	s, p, err := d.next()
	if err != nil {
		return false
	}
	return d.Perform(s, p)
}

// next loads the records of the next step, which must exist. If they do not fit the graph, the graph fails.
func (d *Replay) next() (*engine.Location, *engine.Plan, error) {
	next := &d.from.Plans[d.made]
	d.made++
	s, err := load(d.g, d.from, d.made-1)
	if err != nil {
		return nil, nil, d.refuse(err)
	}
	for _, t := range next.Take {
		d.g.Note(func() string { return fmt.Sprintf("take %d recorded of %s", t.N, s.Ops[t.Op]) })
	}
	d.last = max(d.last, next.Now)
	return s, &next.Plan, nil
}

// load makes the inputs take the records of step n of a recording, whose mu is held, and returns the step's location.
func load(g *engine.Graph, from *engine.Recording, n int) (*engine.Location, error) {
	if n == 0 {
		if err := from.Fits(g); err != nil {
			return nil, fmt.Errorf("dataflow: the recording does not fit this flow: %w", err)
		}
	}
	next := &from.Plans[n]
	if next.Location >= len(g.Locations) {
		return nil, fmt.Errorf("dataflow: step %d of the recording is of a location that this flow does not have", n+1)
	}
	s := g.Locations[next.Location]
	if err := s.Load(&next.Plan); err != nil {
		return nil, fmt.Errorf("dataflow: step %d of the recording does not fit this flow: %w", n+1, err)
	}
	return s, nil
}

// refuse ends the replay because of err, and the graph if it has not ended.
func (d *Replay) refuse(err error) error {
	d.refused = err
	d.g.Fail(err)
	return err
}

// Perform implements [engine.Driver].
func (d *Replay) Perform(s *engine.Location, p *engine.Plan) (ok bool) {
	if ok = s.Step(p); ok {
		s.Publish()
	}
	return ok
}

// Settle implements [engine.Driver].
func (d *Replay) Settle(s *engine.Location, _ int) bool {
	s.Mu.Unlock()
	return true
}

// HandOver implements [engine.Driver].
func (d *Replay) HandOver(s *engine.Location) { s.Mu.Unlock() }

// Admit implements [engine.Driver].
func (d *Replay) Admit(ctx context.Context, in *engine.InputBase) (engine.Admission, error) {
	return in.AwaitSpace(ctx)
}

// Wait implements [engine.Driver].
func (d *Replay) Wait(context.Context, *engine.Location, *token.Waiter) error {
	if d.Step() {
		return nil
	}
	if err := d.g.Err(); err != nil {
		return err
	}
	return ErrQuiet
}

// Deliver implements [engine.Driver].
func (d *Replay) Deliver(x engine.Delivery) { x.Discard() }

// Arrived implements [engine.Driver].
func (d *Replay) Arrived(l *engine.Edge) { l.To.Mu.Unlock() }

// Bounded implements [engine.Driver].
func (d *Replay) Bounded() bool { return false }

// Ask implements [engine.Driver].
func (d *Replay) Ask(s *engine.Location) <-chan struct{} { return s.AskBetweenSteps() }

// Retire implements [engine.Driver].
func (d *Replay) Retire(*engine.Location) {}

// Arm implements [engine.Driver].
func (d *Replay) Arm(*engine.Location) {}

// Ended implements [engine.Driver].
func (d *Replay) Ended(context.Context, *engine.Graph) error { return runToEnd(d.g, d.Step) }

// Quiesce makes all steps.
func (d *Replay) Quiesce() error {
	for d.Step() {
	}
	if err := d.g.Err(); err != nil {
		return err
	}
	return d.refused
}
