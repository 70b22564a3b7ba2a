package authorize

import (
	"context"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

type stream[L dataflow.Location, O dataflow.Order] = dataflow.KeyedStream[string, In, L, bounds.Unbounded, O, dataflow.ExactlyOnce]
type said[L dataflow.Location] = dataflow.OrderedKeyedStream[string, Out, L]

// Machine adds the authorizations of all runtimes to a flow, by the name of the runtime. At most
// jobs jobs run at once.
func Machine[L dataflow.Location, O dataflow.Order](ins stream[L, O], jobs int, do func(ctx context.Context, runtime string, j Job) Outcome) said[L] {
	return machine(ins, jobs, do, func(*State, *turn) {})
}

// machine is Machine, and calls look after each turn.
func machine[L dataflow.Location, O dataflow.Order](
	ins stream[L, O], jobs int, do func(ctx context.Context, runtime string, j Job) Outcome, look func(*State, *turn),
) said[L] {
	out, _ := keyedstream.CallingMachine(ins, newState, func(s **State, in In, do *turn) { take(*s, in, do); look(*s, do) },
		func(s **State, t keyedstream.Timer, do *turn) { fire(*s, t, do); look(*s, do) },
		keyedstream.Calling(func(ctx context.Context, c keyedstream.Call[string, Job]) Outcome { return do(ctx, c.Key, c.Request) },
			func(s **State, j Job, o Outcome, do *turn) { outcome(*s, j, o, do); look(*s, do) }, keyedstream.CallOptions{Concurrency: jobs}),
		"a user completes an authorization whenever he likes, the first redirect counts, and what a token makes unnecessary is over")
	return dataflow.Named("authorize", out)
}
