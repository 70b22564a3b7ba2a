package dataflow_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestWaitingForOneKey has many goroutines wait for one key, some in Await and some in Take. Each
// Await returns the entry, and so does one Take. The other calls of Take return ErrTaken, and
// nothing is left.
func TestWaitingForOneKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, requests := keyedsingleton.Input[string, int](dataflow.At[server](flow), "requests")
		out := keyedsingleton.Output(requests, "answers")
		app := start(t, flow)
		var awaited, taken, lost atomic.Int32
		for i := range 12 {
			ask, got := out.Await, &awaited
			if i%3 == 1 {
				ask, got = out.Take, &taken
			}
			go func() {
				switch v, err := ask(t.Context(), "key"); {
				case v == 7 && err == nil:
					got.Add(1)
				case err == dataflow.ErrTaken:
					lost.Add(1)
				default:
					t.Errorf("%d, %v", v, err)
				}
			}()
			synctest.Wait()
		}
		if err := in.Put(t.Context(), "key", 7); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if a, b := awaited.Load(), taken.Load(); a != 8 || b != 1 || out.Len() != 0 {
			t.Errorf("%d who await and %d who take it got it, and %d entries are left, want 8, 1 and 0", a, b, out.Len())
		}
		in.Close()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		if n := lost.Load(); n != 3 {
			t.Errorf("%d were told that the entry is taken, want 3", n)
		}
	})
}

// TestTakersThatGiveUp cancels calls of Take just as their values arrive. Each value goes to its
// Take or stays for the next one.
func TestTakersThatGiveUp(t *testing.T) {
	const keys = 5000
	flow := dataflow.New()
	in, requests := keyedsingleton.Input[int, int](dataflow.At[server](flow), "requests")
	out := keyedsingleton.Output(requests, "answers")
	app := start(t, flow)
	var gaveUp atomic.Int32
	var wg sync.WaitGroup
	for k := range keys {
		ctx, cancel := context.WithCancel(t.Context())
		wg.Go(func() {
			if v, err := out.Take(ctx, k); errors.Is(err, context.Canceled) {
				gaveUp.Add(1)
				if v, err = out.Take(t.Context(), k); v != k || err != nil {
					t.Errorf("key %d, taken again: %d, %v", k, v, err)
				}
			} else if v != k || err != nil {
				t.Errorf("key %d: %d, %v", k, v, err)
			}
		})
		wg.Go(cancel)
		wg.Go(func() {
			if err := in.Put(t.Context(), k, k); err != nil {
				t.Error(err)
			}
		})
		if k%64 == 63 {
			wg.Wait()
		}
	}
	wg.Wait()
	if n := gaveUp.Load(); n == 0 || n == keys {
		t.Errorf("%d of %d takers gave up: the race was not tried", n, keys)
	}
	if n := out.Len(); n != 0 {
		t.Errorf("%d entries are left", n)
	}
	in.Close()
	if err := app.Wait(); err != nil {
		t.Fatal(err)
	}
}
