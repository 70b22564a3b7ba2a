package keyedsingleton

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/operators"
	"github.com/millrace/millrace/internal/engine/port"
)

func (o AsyncOptions) check(op *engine.Op) {
	if o.Concurrency < 0 {
		engine.Misuse(op.Name, "Concurrency is %d", o.Concurrency)
	}
	if o.Timeout < 0 {
		engine.Misuse(op.Name, "Timeout is %v", o.Timeout)
	}
}

// within returns f with a context that ends after timeout, unless timeout is 0.
func within[K comparable, V, U any](timeout time.Duration, f func(context.Context, K, V) U) func(context.Context, K, V) U {
	if timeout == 0 {
		return f
	}
	return func(ctx context.Context, k K, v V) U {
		ctx, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		return f(ctx, k, v)
	}
}

// MapAsyncWithKey is [MapAsync] for a function that also sees the key. A service can use
// the key to perform each call once.
func MapAsyncWithKey[K comparable, V, U any, L dataflow.Location, B bounds.FixedValuesLater[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], f func(context.Context, K, V) U, opts AsyncOptions,
) dataflow.KeyedSingleton[K, U, L, Out] {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.MapAsyncWithKey", f)
	opts.check(op)
	return newKeyedSingleton[K, U, L, Out](port.MapAsync(n, op, within(opts.Timeout, f), cmp.Or(opts.Concurrency, 64)))
}

// Backoff says how [TryAsync] repeats a failed call. The zero value is ready to use.
type Backoff struct {
	// Attempts is the maximum number of attempts of a call, including the first. Zero means
	// 3.
	Attempts int

	// First is the pause after the first failed attempt. Each further pause is twice the
	// one before, and at most Most. Zero means 100 ms for First and 10 s for Most.
	First, Most time.Duration
}

// A CallError says why a call of [TryAsync] failed for good. It holds the text of the last
// attempt's error and not the error itself, because a durable flow stores it.
type CallError struct {
	Text     string
	Attempts int // attempts made
}

// Error returns the text and the number of attempts.
func (e CallError) Error() string { return fmt.Sprintf("%s (attempt %d)", e.Text, e.Attempts) }

// An outcome is the result of a call of TryAsync. Failure is zero if the call succeeded.
type outcome[U any] struct {
	Value   U
	Failure CallError
}

// TryAsync is [MapAsyncWithKey] for a function that can fail. It calls f again, as again
// says, until f succeeds or no attempt is left. In the latter case the key gets a
// [CallError] among the failures. Each key is in one of the two results. A panic of f ends
// the flow, as in [MapAsync].
//
// Only the outcome is part of the history. A call pauses between its attempts within the
// call, so it counts toward Concurrency meanwhile. After a restart of a durable flow it
// begins with its first attempt again. If other parts of the program must see or end
// attempts, set a timer for each attempt with [AfterEach]. The simulator makes no pauses.
func TryAsync[K comparable, V, U any, L dataflow.Location, B bounds.FixedValuesLater[Out], Out bounds.KeyedSingleton](
	ks dataflow.KeyedSingleton[K, V, L, B], f func(context.Context, K, V) (U, error), opts AsyncOptions, again Backoff,
) (values dataflow.KeyedSingleton[K, U, L, Out], failures dataflow.KeyedSingleton[K, CallError, L, Out]) {
	n, op := engine.Read(engine.KeyedNodeOf(ks), "keyedsingleton.TryAsync", f)
	opts.check(op)
	if again.Attempts < 0 || again.First < 0 || again.Most < 0 {
		engine.Misuse(op.Name, "%+v: nothing of it may be negative", again)
	}
	again = Backoff{cmp.Or(again.Attempts, 3), cmp.Or(again.First, 100*time.Millisecond), cmp.Or(again.Most, 10*time.Second)}
	if n.Loc.Graph.Settings.Watch != nil {
		again.First = 0 // a simulated location makes its calls one after the other
	}
	try := within(opts.Timeout, func(ctx context.Context, k K, v V) outcome[U] {
		u, err := f(ctx, k, v)
		if err != nil {
			return outcome[U]{Failure: CallError{Text: err.Error(), Attempts: 1}}
		}
		return outcome[U]{Value: u}
	})
	call := func(ctx context.Context, k K, v V) outcome[U] {
		pause := again.First
		for i := 1; ; i++ {
			o := try(ctx, k, v)
			if o.Failure.Attempts == 0 {
				return o
			}
			if o.Failure.Attempts = i; i == again.Attempts || !sleep(ctx, min(pause, again.Most)) {
				return o
			}
			pause = min(2*pause, again.Most)
		}
	}
	async := port.MapAsync(n, op, call, cmp.Or(opts.Concurrency, 64))
	us, fs := operators.KFork(async, op, func(o outcome[U]) (U, CallError, bool) {
		return o.Value, o.Failure, o.Failure.Attempts == 0
	})
	return newKeyedSingleton[K, U, L, Out](us), newKeyedSingleton[K, CallError, L, Out](fs)
}

// sleep waits for d or until ctx ends. It reports whether ctx has not ended.
func sleep(ctx context.Context, d time.Duration) bool {
	if d == 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}
