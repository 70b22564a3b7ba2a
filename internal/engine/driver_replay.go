package engine

import (
	"context"
	"fmt"
	"time"
)

// A Replay makes the steps of a recording again. Nothing is accepted and nothing is sent:
// what locations, cycles and asynchronous calls gave is in the recording.
type Replay struct {
	g    *Graph
	from *Recording
	made int   // plans of from whose steps were made
	last int64 // the time of the latest
}

// Replay makes an empty graph one that makes the steps of a recording again.
func (g *Graph) Replay(from *Recording, watch Watcher) *Replay {
	d := &Replay{g: g, from: from}
	g.driver, g.set.Watch = d, watch
	return d
}

func (d *Replay) prepare(*Graph) {}

// start does nothing: the first step of a location is in the recording.
func (d *Replay) start(*Site) {}

func (d *Replay) now(*Site) int64 { return max(d.last, 1) }

// Step makes the next step and reports whether there was one.
func (d *Replay) Step() bool {
	d.from.mu.Lock()
	defer d.from.mu.Unlock()
	if d.g.Err() != nil {
		return false
	}
	if d.made == len(d.from.plans) {
		return settleAny(d.g)
	}
	s, p, err := d.next()
	if err != nil {
		return false
	}
	return d.perform(s, p)
}

// next loads the records of the next step, which there is. If they do not fit the graph, it
// has failed.
func (d *Replay) next() (*Site, *Plan, error) {
	next := &d.from.plans[d.made]
	d.made++
	if next.site >= len(d.g.sites) {
		d.g.Fail(fmt.Errorf("dataflow: step %d of the recording is of a location that this flow does not have", d.made))
		return nil, nil, d.g.Err()
	}
	s := d.g.sites[next.site]
	if err := s.load(&next.Plan); err != nil {
		d.g.Fail(fmt.Errorf("dataflow: step %d of the recording does not fit this flow: %w", d.made, err))
		return nil, nil, d.g.Err()
	}
	for _, t := range next.Take {
		d.g.note(func() string { return fmt.Sprintf("take %d recorded of %s", t.N, s.ops[t.Op]) })
	}
	d.last = max(d.last, next.Now)
	return s, &next.Plan, nil
}

func (d *Replay) perform(s *Site, p *Plan) (ok bool) {
	if ok = s.step(p); ok {
		s.publish()
	}
	return ok
}

func (d *Replay) settle(s *Site, _ int) bool {
	s.mu.Unlock()
	return true
}

func (d *Replay) handOver(s *Site) { s.mu.Unlock() }

func (d *Replay) admit(ctx context.Context, in *door) (admission, error) { return in.room(ctx) }

func (d *Replay) wait(context.Context, *Site, *waiter) error {
	if d.Step() {
		return nil
	}
	if err := d.g.Err(); err != nil {
		return err
	}
	return ErrQuiet
}

func (d *Replay) deliver(x delivery) { x.discard() }

func (d *Replay) arrived(l *link) { l.to.mu.Unlock() }

func (d *Replay) bounded() bool { return false }

func (d *Replay) ask(s *Site) <-chan struct{} { return s.askBetweenSteps() }

func (d *Replay) origin(*Site) time.Time { return time.Unix(0, 0) }

func (d *Replay) retire(*Site) {}

func (d *Replay) arm(*Site) {}

func (d *Replay) ended(context.Context, *Graph) error { return runToEnd(d.g, d.Step) }

// Quiesce makes all steps.
func (d *Replay) Quiesce() error {
	for d.Step() {
	}
	return d.g.Err()
}
