package keyedstream

import (
	"cmp"
	"context"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/machines"
)

// A Call is a request made with [CallingTurn.Call]. Key, Life and Number distinguish it from
// every other call of the operator, forever and across restarts. Together they are the
// idempotency key of the call, which may be made again after a crash. Life is the number of the
// key's life, and Number counts the calls of that life from 1.
type Call[K comparable, Q any] struct {
	Key     K
	Life    uint64
	Number  uint32
	Request Q
}

// CallOptions are the settings of the calls of a [CallingMachine]. The zero value is ready to
// use.
type CallOptions struct {
	// Concurrency is the maximum number of concurrent calls. Zero means 64. Further calls wait.
	// If more wait than the flow's queue holds, the location accepts no further input until
	// fewer wait.
	Concurrency int
	// Timeout is the time after which the context of a running call ends. Zero means never.
	Timeout time.Duration
}

// Calls say how the machines of a [CallingMachine] call the outside world, and how they handle
// an answer. [Calling] makes them.
type Calls[K comparable, S, U, A, Q any] struct {
	built func(c *machines.Caller[K, S, U, A, Q], do *CallingTurn[K, U, A, Q]) (*engine.KeyedNode[K, U], *engine.KeyedNode[K, A])
}

// Calling makes [Calls] from the function that makes a call and the one that handles its
// answer. The function answer is called with the state, the request and the result of call, in
// the order in which answers come, and never after the life that made the request is over.
//
// Several goroutines use call, and it may block. Its context ends after the timeout, when the
// life is over, and when the flow fails. An error is part of Z. If call panics, the flow fails
// with a [dataflow.StepError].
func Calling[K comparable, S, U, A, Q, Z any](
	call func(context.Context, Call[K, Q]) Z, answer func(state *S, q Q, z Z, do *CallingTurn[K, U, A, Q]), opts CallOptions,
) Calls[K, S, U, A, Q] {
	const name = "keyedstream.Calling"
	engine.Given(name, call, answer)
	if opts.Concurrency < 0 || opts.Timeout < 0 {
		engine.Misuse(name, "Concurrency is %d, Timeout is %v", opts.Concurrency, opts.Timeout)
	}
	return Calls[K, S, U, A, Q]{func(c *machines.Caller[K, S, U, A, Q], do *CallingTurn[K, U, A, Q]) (*engine.KeyedNode[K, U], *engine.KeyedNode[K, A]) {
		return machines.Answers(c, func(ctx context.Context, id machines.CallKey[K], q Q) Z {
			return call(ctx, Call[K, Q]{id.Key, id.Life, id.Number, q})
		}, func(state *S, q Q, z Z) { answer(state, q, z, do) }, cmp.Or(opts.Concurrency, 64), opts.Timeout)
	}}
}

// CallingMachine is [TimedMachine] with calls: a [CallingTurn] can request something from
// outside the flow, and the answer is a record for the key like any other. An answer to a life
// that is over is dropped. If a flow's inputs are closed, it ends when no timer is set and all
// calls have returned.
//
// In a durable flow a call without an answer is made again after a crash, with the same key,
// life and number. If a call gets two answers, the first counts.
//
// # Nondeterminism
//
// The runtime chooses the order of a key's values, where ks has none, its timers and the
// answers to its calls; why says that the machine is right in every such order. A simulation
// explores them.
func CallingMachine[K comparable, V, S, U, A, Q any, L dataflow.Location, O dataflow.Order, R dataflow.NoRetries](
	ks dataflow.KeyedStream[K, V, L, bounds.Unbounded, O, R], init func() S,
	step func(state *S, v V, do *CallingTurn[K, U, A, Q]), fire func(state *S, t Timer, do *CallingTurn[K, U, A, Q]),
	calls Calls[K, S, U, A, Q], why dataflow.NonDet,
) (emitted dataflow.KeyedStream[K, U, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce], decided dataflow.KeyedSingleton[K, A, L, bounds.RetainedValue]) {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedstream.CallingMachine", why, init, step, fire)
	if calls.built == nil {
		engine.Unmade(op.Name, "calls are made by keyedstream.Calling")
	}
	do := new(CallingTurn[K, U, A, Q])
	us, as := calls.built(machines.CallingMachine(n, op, &do.noted, &do.requests, init,
		func(state *S, v V) { step(state, v, do) }, func(state *S, t uint8) { fire(state, Timer(t), do) }), do)
	return newKeyedStream[K, U, L, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce](us), newKeyedSingleton[K, A, L, bounds.RetainedValue](as)
}
