package keyedsingleton

import (
	"cmp"
	"context"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

// AsyncOptions are the settings of [MapAsync]. The zero value is ready to use.
type AsyncOptions struct {
	// Concurrency is how many calls are made at once. Zero means 64. Entries beyond
	// it wait; if more wait than the flow's queue holds, the location takes no
	// further input until they are fewer.
	Concurrency int

	// Timeout is how long a call may take, in [TryAsync] each attempt: then its context
	// ends with [context.DeadlineExceeded], and what the function makes of that is its
	// answer. Zero means that there is no limit.
	Timeout time.Duration
}

// MapAsync returns, for each entry, what f returned for its value, when f returns.
// Calls are made outside the location, at most Concurrency at once, after the step
// that asked for them: f may block and is called by several goroutines. Its context
// ends when the flow fails or is ended. An error is part of U. If f panics the flow
// fails with a [dataflow.StepError].
//
// Which answer comes first cannot be seen: the result has one value for each key,
// and every function over it is deterministic.
func MapAsync[K comparable, V, U any, L dataflow.Location, B bounds.FixedValuesLater[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], f func(context.Context, V) U, opts AsyncOptions,
) dataflow.KeyedSingleton[K, U, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.MapAsync", f)
	opts.check(op)
	call := within(opts.Timeout, func(ctx context.Context, _ K, v V) U { return f(ctx, v) })
	return newKeyedSingleton[K, U, L, Out](port.MapAsync(n, op, call, cmp.Or(opts.Concurrency, 64)))
}

// After returns each entry of ks again, a delay after it appeared. The time is that
// of the location: a firing is a record of its history like any other, so whatever
// races with it, every reader sees one order.
//
// Timers of a location fire in the order of their deadlines, also those of several
// operators, and at one deadline in the order in which the operators were built. A timer
// is due at the earliest a delay after its entry came; when that was due to another timer,
// a delay after the deadline of that one.
//
// Setting a timer costs O(1). A pending one holds its entry. Timers that come due while
// the location is busy fire together, unless an operator that reads the time follows: then
// each deadline is a batch of its own.
//
// # Nondeterminism
//
// What has happened before a timer fires is the clock's choice.
func After[K comparable, V any, L dataflow.Location, B bounds.FixedValuesLater[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], delay time.Duration, why dataflow.NonDet,
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedsingleton.After", why)
	return newKeyedSingleton[K, V, L, Out](operators.After(n, op, delay, nil))
}

// AfterEach is [After] with a delay of its own for each entry. A delay that is not
// positive fires at once, or in a durable flow a nanosecond later.
//
// # Nondeterminism
//
// What has happened before a timer fires is the clock's choice.
func AfterEach[K comparable, V any, L dataflow.Location, B bounds.FixedValuesLater[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], delay func(V) time.Duration, why dataflow.NonDet,
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedsingleton.AfterEach", why, delay)
	return newKeyedSingleton[K, V, L, Out](operators.After(n, op, 0, delay))
}
