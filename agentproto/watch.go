package agentproto

import (
	"context"
	"math"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

// A Watched is a call whose tool server may be asked whether it has it still, for
// [ProgramOptions].Watch.
type Watched struct {
	Key CallKey
	// Server is that of the call: it tells which tool server has it.
	Server string
}

// outcomesAt are what came of posting calls.
type outcomesAt = dataflow.KeyedSingleton[CallKey, DispatchOutcome, Host, bounds.BoundedValue]

// losses watches the calls that were acknowledged and are to be watched. That one is lost is
// an input. A call that was not acknowledged is not watched, by a process that takes over
// neither: its tool server may not have it yet.
func (p *Program) losses(outcomes outcomesAt, watch func(ctx context.Context, w *Watched) (lost string)) inputsAt {
	watched := keyedsingleton.FilterMapWithKey(outcomes, func(k CallKey, o DispatchOutcome) (*Watched, bool) {
		return &Watched{Key: k, Server: o.Watch}, o.Accepted && o.Watch != ""
	})
	lost := keyedsingleton.MapAsync(watched, func(ctx context.Context, w *Watched) string {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(p.ending, cancel)()
		return watch(ctx, w)
	}, keyedsingleton.AsyncOptions{Concurrency: math.MaxInt32}) // as many as are pending
	return keyedsingleton.FilterMap(lost, func(reason string) (input, bool) {
		return input{Event: &event{Event: Event{Kind: CallLost, Reason: reason}}}, reason != ""
	})
}
