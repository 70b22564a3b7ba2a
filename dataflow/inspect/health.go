package inspect

import (
	"time"

	"github.com/millrace/millrace/dataflow/durable"
)

// A Reason says in a word why a flow does not do its work.
type Reason string

// The reasons.
const (
	Failed     Reason = "failed"      // it has ended with an error
	OutputFull Reason = "output_full" // a location has stood still for ten seconds: see [Snapshot].Stopped
	StepHangs  Reason = "step_hangs"  // a step goes on for more than 30 s
	Restoring  Reason = "restoring"   // a partition of a durable flow is being restored
	Halted     Reason = "halted"      // a partition of a durable flow cannot go on, or takes only what makes room
)

// How long a location may stand still, and a step go on, before the flow is not healthy.
const (
	longStop = 10 * time.Second
	longStep = 30 * time.Second
)

// Unhealthy returns the reasons why app does not do its work, or nil. A queue that is full is none:
// senders wait, as they should. A flow that has ended without an error is healthy.
//
// They are reasons to send no more requests to a process, and only [Failed] is one to start it again:
// an output that nobody reads is not read by another process either. It takes as long as [Take].
func Unhealthy(app App) (why []Reason) {
	s := Take(app)
	add := func(r Reason, is bool) {
		if is {
			for _, known := range why {
				if known == r {
					return
				}
			}
			why = append(why, r)
		}
	}
	add(Failed, s.Error != "")
	for _, stopped := range s.Stopped {
		add(OutputFull, stopped.Operator >= 0 && !stopped.Since.IsZero() && s.At.Sub(stopped.Since) > longStop)
	}
	for _, l := range s.Locations {
		add(StepHangs, l.Stale && !l.Time.IsZero() && s.At.Sub(l.Time) > longStep)
	}
	for _, p := range s.Partitions {
		add(Restoring, p.State == string(durable.Restoring))
		add(Halted, p.State == string(durable.Stopped) || p.State == string(durable.Full))
	}
	return why
}
