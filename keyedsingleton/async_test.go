package keyedsingleton_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
)

func ExampleMapAsyncWithKey() {
	ctx := context.Background()
	flow := dataflow.New()
	in, payments := keyedsingleton.Input[string, int](dataflow.At[Bank](flow), "payments")
	paid := keyedsingleton.MapAsyncWithKey(payments, func(ctx context.Context, id string, cents int) string {
		return fmt.Sprintf("receipt of %d for %s", cents, id) // the id makes a repeated call harmless
	}, keyedsingleton.AsyncOptions{Timeout: time.Minute})
	out := keyedsingleton.Output(paid, "paid")
	app, _ := dataflow.Start(ctx, flow)

	in.Put(ctx, "p-1", 25_000)
	fmt.Println(out.Await(ctx, "p-1"))
	app.Stop(ctx)
	// Output:
	// receipt of 25000 for p-1 <nil>
}

func ExampleTryAsync() {
	ctx := context.Background()
	flow := dataflow.New()
	in, payments := keyedsingleton.Input[string, int](dataflow.At[Bank](flow), "payments")
	paid, refused := keyedsingleton.TryAsync(payments, func(ctx context.Context, id string, cents int) (string, error) {
		if cents > 1000 {
			return "", errors.New("no credit")
		}
		return "receipt for " + id, nil
	}, keyedsingleton.AsyncOptions{}, keyedsingleton.Backoff{Attempts: 2, First: time.Microsecond})
	receipts, refusals := keyedsingleton.Output(paid, "paid"), keyedsingleton.Output(refused, "refused")
	app, _ := dataflow.Start(ctx, flow)

	in.Put(ctx, "p-1", 25_000)
	in.Put(ctx, "p-2", 30)
	fmt.Println(refusals.Await(ctx, "p-1"))
	fmt.Println(receipts.Await(ctx, "p-2"))
	app.Stop(ctx)
	// Output:
	// no credit (attempt 2) <nil>
	// receipt for p-2 <nil>
}

// TestTryAsyncPauses checks when attempts are made, and that a success ends them.
func TestTryAsyncPauses(t *testing.T) {
	for _, x := range []struct {
		again keyedsingleton.Backoff
		fails int
		want  []time.Duration // the times of the attempts, since the first
	}{
		{keyedsingleton.Backoff{}, 9, []time.Duration{0, 100 * time.Millisecond, 300 * time.Millisecond}},
		{keyedsingleton.Backoff{Attempts: 5, First: time.Second, Most: 3 * time.Second}, 9, []time.Duration{0, time.Second, 3 * time.Second, 6 * time.Second, 9 * time.Second}},
		{keyedsingleton.Backoff{First: time.Minute}, 1, []time.Duration{0, 10 * time.Second}},
		{keyedsingleton.Backoff{Attempts: 1}, 9, []time.Duration{0}},
		{keyedsingleton.Backoff{Attempts: 1}, 0, []time.Duration{0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			flow := dataflow.New()
			in, entries := keyedsingleton.Input[string, int](dataflow.At[server](flow), "in")
			var at []time.Duration
			var began time.Time
			values, failures := keyedsingleton.TryAsync(entries, func(_ context.Context, k string, v int) (string, error) {
				if at = append(at, time.Since(began)); len(at) <= x.fails {
					return "", fmt.Errorf("%s %d fails", k, v)
				}
				return k, nil
			}, keyedsingleton.AsyncOptions{}, x.again)
			good, bad := keyedsingleton.Output(values, "good"), keyedsingleton.Output(failures, "bad")
			app := start(t, flow)
			began = time.Now()
			if err := in.Put(t.Context(), "k", 7); err != nil {
				t.Fatal(err)
			}
			in.Close()
			if err := app.Wait(); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(at, x.want) {
				t.Errorf("%+v: attempts after %v, want %v", x.again, at, x.want)
			}
			v, ok := good.Get("k")
			e, failed := bad.Get("k")
			if want := x.fails < len(x.want); ok != want || failed == want || ok && v != "k" {
				t.Errorf("%+v: value %q, %t; failure %v, %t", x.again, v, ok, e, failed)
			}
			if want := (keyedsingleton.CallError{Text: "k 7 fails", Attempts: len(x.want)}); failed && e != want {
				t.Errorf("%+v: %v, want %v", x.again, e, want)
			}
		})
	}
}

// TestAsyncTimeout checks that the timeout ends the context of a call, and of each attempt.
func TestAsyncTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, entries := keyedsingleton.Input[int, int](at, "in")
		opts := keyedsingleton.AsyncOptions{Timeout: 2 * time.Second}
		hang := func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }
		out := keyedsingleton.Output(keyedsingleton.MapAsync(entries, func(ctx context.Context, _ int) string { return hang(ctx).Error() }, opts), "one")
		_, failures := keyedsingleton.TryAsync(entries, func(ctx context.Context, _, _ int) (int, error) { return 0, hang(ctx) }, opts, keyedsingleton.Backoff{First: time.Second})
		bad := keyedsingleton.Output(failures, "all")
		app := start(t, flow)
		began := time.Now()
		if err := in.Put(t.Context(), 1, 1); err != nil {
			t.Fatal(err)
		}
		if v, err := out.Await(t.Context(), 1); v != context.DeadlineExceeded.Error() || err != nil || time.Since(began) != 2*time.Second {
			t.Errorf("%q, %v after %v", v, err, time.Since(began))
		}
		want := keyedsingleton.CallError{Text: context.DeadlineExceeded.Error(), Attempts: 3}
		if v, err := bad.Await(t.Context(), 1); v != want || err != nil || time.Since(began) != (2+1+2+2+2)*time.Second {
			t.Errorf("%v, %v after %v", v, err, time.Since(began))
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestTryAsyncEnds ends a flow between two attempts of a call and checks that it does not wait for
// the next attempt.
func TestTryAsyncEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, entries := keyedsingleton.Input[int, int](dataflow.At[server](flow), "in")
		var tried sync.WaitGroup
		tried.Add(1)
		keyedsingleton.TryAsync(entries, func(context.Context, int, int) (int, error) { tried.Done(); return 0, errors.New("later") },
			keyedsingleton.AsyncOptions{}, keyedsingleton.Backoff{First: time.Hour, Most: time.Hour})
		ctx, cancel := context.WithCancel(t.Context())
		app, err := dataflow.Start(ctx, flow)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := in.Put(t.Context(), 1, 1); err != nil {
			t.Fatal(err)
		}
		tried.Wait()
		cancel()
		if app.Wait(); time.Since(began) != 0 {
			t.Errorf("the flow ended after %v", time.Since(began))
		}
	})
}

// TestTryAsyncSimulated checks that calls have the same outcome in every schedule. The simulator
// makes no pauses between attempts.
func TestTryAsyncSimulated(t *testing.T) {
	sim.Exhaustive(t, func(s *sim.Sim) {
		in, entries := keyedsingleton.Input[int, int](dataflow.At[server](s.Flow()), "in")
		attempts := make(map[int]int)
		values, failures := keyedsingleton.TryAsync(entries, func(_ context.Context, k, v int) (int, error) {
			if attempts[k]++; attempts[k] < v {
				return 0, errors.New("not yet")
			}
			return v, nil
		}, keyedsingleton.AsyncOptions{}, keyedsingleton.Backoff{First: time.Hour})
		good, bad := keyedsingleton.Output(values, "good"), keyedsingleton.Output(failures, "bad")
		s.Start()
		in.Put(s.Context(), 1, 2)
		in.Put(s.Context(), 2, 5)
		if v, err := good.Await(s.Context(), 1); v != 2 || err != nil {
			t.Errorf("%d, %v", v, err)
		}
		if e, err := bad.Await(s.Context(), 2); e != (keyedsingleton.CallError{Text: "not yet", Attempts: 3}) || err != nil {
			t.Errorf("%v, %v", e, err)
		}
	})
}

// dropped returns how many answers the first location has dropped.
func dropped(app *dataflow.App) (n uint64) {
	for _, op := range app.Status()[0].Operators {
		n += op.Dropped
	}
	return n
}
