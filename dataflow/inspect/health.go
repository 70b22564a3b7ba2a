package inspect

import (
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
)

// A Reason says in a word why a flow does not do its work.
type Reason string

// The reasons.
const (
	Failed    Reason = "failed"     // the flow has ended with an error
	Blocked   Reason = "blocked"    // a location has stood still for ten seconds: see [Snapshot].Stopped
	StepHangs Reason = "step_hangs" // a step has taken 30 s, from one probe to another
	Restoring Reason = "restoring"  // a partition of a durable flow is being restored
	Halted    Reason = "halted"     // a partition of a durable flow cannot continue, or takes only what makes room
)

// How long a location may stand still, and a step take, before the flow is not healthy.
const (
	longStop = 10 * time.Second
	longStep = 30 * time.Second
)

// A prober finds out why a flow does not do its work. It remembers which steps were running. A snapshot does
// not say how long a step has been running, because its figures are from before the step.
type prober struct {
	app App

	mu    sync.Mutex
	steps map[int]longer // by location
}

// A longer is a step that took longer than a probe waited.
type longer struct {
	figures time.Time // time of the figures, which were copied before the step
	seen    time.Time
}

// reasons returns why the flow does not do its work, or nil. A full queue is no reason: senders wait, as they
// should. A flow that has ended without an error is healthy. It takes as long as [Take].
func (p *prober) reasons() (why []Reason) {
	s := Take(p.app)
	add := func(r Reason, is bool) {
		if is && !slices.Contains(why, r) {
			why = append(why, r)
		}
	}
	add(Failed, s.Error != "")
	for _, stopped := range s.Stopped {
		add(Blocked, !stopped.Since.IsZero() && s.At.Sub(stopped.Since) > longStop)
	}
	for i, l := range s.Locations {
		add(StepHangs, p.hangs(i, &l, s.At))
	}
	for _, part := range s.Partitions {
		add(Restoring, part.State == string(durable.Restoring))
		add(Halted, part.State == string(durable.Stopped) || part.State == string(durable.Full))
	}
	return why
}

// hangs reports whether location number i has been in one step for long. A location answers only between
// steps, so unchanged figures mean that it is still the same step.
func (p *prober) hangs(i int, l *Location, now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !l.Stale {
		delete(p.steps, i)
		return false
	}
	step, known := p.steps[i]
	if !known || !step.figures.Equal(l.Time) {
		p.steps[i] = longer{l.Time, now}
		return false
	}
	return now.Sub(step.seen) > longStep
}
