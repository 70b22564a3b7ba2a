package agentproto

import (
	"context"
	"math"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// A Watched is a call whose tool server may be asked whether it still has the call, for [ProgramOptions].Watch.
type Watched struct {
	Key CallKey
	// Server is the call's server: the one to ask.
	Server string
}

// once are the bounds of calls and of what is derived from them: their values are fixed, whether or not their keys are forgotten.
type once[B bounds.KeyedSingleton] interface {
	bounds.KeyedSingleton
	bounds.FixedValues[bounds.Unbounded]
	bounds.FixedValuesLater[B]
	bounds.Filtered[B]
}

// post posts the calls, and watches those that ask for it. It returns the calls that were not accepted or are lost; an acceptance
// changes nothing. A call is posted even if it is over by then; [ProgramOptions].Dispatch has to find that out.
//
// A call that was not acknowledged is not watched, not even by a process that takes over: its tool server may not have it yet.
func post[B once[B]](p *Program, calls dataflow.KeyedSingleton[CallKey, *Call, Host, B], opts ProgramOptions) mergedAt {
	valid := keyedsingleton.Filter(calls, func(c *Call) bool { return c.Rejected == "" })
	outcomes := keyedsingleton.MapAsync(valid, func(ctx context.Context, c *Call) DispatchOutcome {
		return opts.Dispatch(ctx, c)
	}, keyedsingleton.AsyncOptions{Concurrency: opts.Concurrency})
	failures := keyedsingleton.IntoKeyedStream(keyedsingleton.FilterMap(outcomes, func(o DispatchOutcome) (input, bool) {
		if o.Accepted {
			return input{}, false
		}
		return input{Event: &event{Event: Event{Kind: notAccepted}, Outcome: o}}, true
	}))
	if opts.Watch == nil {
		return keyedstream.WeakenOrder(failures)
	}
	watched := keyedsingleton.FilterMapWithKey(outcomes, func(k CallKey, o DispatchOutcome) (*Watched, bool) {
		return &Watched{Key: k, Server: o.Watch}, o.Accepted && o.Watch != ""
	})
	lost := keyedsingleton.MapAsync(watched, func(ctx context.Context, w *Watched) string {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(p.ending, cancel)()
		return opts.Watch(ctx, w)
	}, keyedsingleton.AsyncOptions{Concurrency: math.MaxInt32}) // as many as are pending
	return keyedstream.Merge(failures, keyedsingleton.IntoKeyedStream(keyedsingleton.FilterMap(lost, func(reason string) (input, bool) {
		return input{Event: &event{Event: Event{Kind: CallLost, Reason: reason}}}, reason != ""
	})))
}
