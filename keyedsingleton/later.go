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
	// Concurrency is the maximum number of concurrent calls. Zero means 64. Further
	// entries wait. If more wait than the flow's queue holds, the location accepts no
	// further input until fewer wait.
	Concurrency int

	// Timeout limits a call, or in [TryAsync] each attempt: after it the context ends
	// with [context.DeadlineExceeded]. The call is not cut off; whatever the function
	// then returns is its answer. Zero means no limit.
	Timeout time.Duration
}

// MapAsync returns, for each entry, the result of f for its value, when f returns. Calls
// are made outside the location, at most Concurrency at once, after the step that asked
// for them: f may block, and several goroutines call it. Its context ends when the flow
// fails or is ended. An error is part of U. If f panics the flow fails with a
// [dataflow.StepError].
//
// The order in which answers come cannot be seen: the result has one value for each key,
// and every function over it is deterministic.
func MapAsync[K comparable, V, U any, L dataflow.Location, B bounds.FixedValuesLater[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], f func(context.Context, V) U, opts AsyncOptions,
) dataflow.KeyedSingleton[K, U, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.MapAsync", f)
	opts.check(op)
	call := within(opts.Timeout, func(ctx context.Context, _ K, v V) U { return f(ctx, v) })
	return newKeyedSingleton[K, U, L, Out](port.MapAsync(n, op, call, cmp.Or(opts.Concurrency, 64)))
}

// After returns each entry of ks again, delay after it appeared. The time is that of the
// location: a firing is a record of the location's history like any other, so every
// reader sees it in the same order relative to other records.
//
// Timers of a location fire in the order of their deadlines, across operators. At one
// deadline they fire in the order in which the operators were built. A timer is due at
// the earliest a delay after its entry came. If the entry came from another timer, it is
// due a delay after the deadline of that timer.
//
// Setting a timer costs O(1). A pending timer holds its entry. Timers that come due while
// the location is busy fire together. If an operator that reads the time follows, each
// deadline is a batch of its own.
//
// # Nondeterminism
//
// The clock decides what happens before a timer fires.
func After[K comparable, V any, L dataflow.Location, B bounds.FixedValuesLater[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], delay time.Duration, why dataflow.NonDet,
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedsingleton.After", why)
	return newKeyedSingleton[K, V, L, Out](operators.After(n, op, delay, nil))
}

// AfterEach is [After] with a separate delay for each entry. A timer whose delay is not
// positive fires at once, or in a durable flow a nanosecond later.
//
// # Nondeterminism
//
// The clock decides what happens before a timer fires.
func AfterEach[K comparable, V any, L dataflow.Location, B bounds.FixedValuesLater[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], delay func(V) time.Duration, why dataflow.NonDet,
) dataflow.KeyedSingleton[K, V, L, Out] {
	n, op := engine.ReadReasoned(engine.KeyedNodeOf(ks), "keyedsingleton.AfterEach", why, delay)
	return newKeyedSingleton[K, V, L, Out](operators.After(n, op, 0, delay))
}
