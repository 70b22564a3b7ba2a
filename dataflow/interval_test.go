package dataflow_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// TestInterval checks when an interval fires: on multiples of its period, beside other
// timers and inputs, until the flow is stopped.
func TestInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, _ := dataflow.Input[int](at, "numbers")
		var got []string
		begin := time.Now()
		note := func(name string) func(time.Duration) {
			return func(d time.Duration) {
				if since := time.Since(begin).Round(time.Microsecond); since != d {
					t.Errorf("%v fired at %v", d, since)
				}
				got = append(got, fmt.Sprint(name, d))
			}
		}
		dataflow.ForEach(dataflow.Interval(at, 2*time.Second, why), note("a"))
		dataflow.ForEach(dataflow.Interval(at, 3*time.Second, why), note("b"))
		app := start(t, flow)
		in.Send(t.Context(), 1)
		time.Sleep(2500 * time.Millisecond)
		in.Send(t.Context(), 1)
		in.Close()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		select {
		case <-app.Done():
			t.Error("the flow ended although nobody stopped it")
		default:
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if want := []string{"a2s", "b3s", "a4s", "a6s", "b6s"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestIntervalMissed checks that an interval emits only the last of the firings that it missed
// while an output was full.
func TestIntervalMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Buffer: 1})
		at := dataflow.At[server](flow)
		out := dataflow.Output(dataflow.Interval(at, time.Second, why), "ticks")
		app := start(t, flow)
		time.Sleep(7500 * time.Millisecond)
		var got []time.Duration
		for range 4 {
			d, err := out.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, d/time.Second)
		}
		if want := []time.Duration{1, 2, 7, 8}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestIntervalRuns checks how a flow with an interval runs: a slice may depend on the interval
// alone, Run returns when its context ends, and Local sees no firing.
func TestIntervalRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		batch := slice.Batch(slice.At(at), dataflow.Interval(at, time.Second, why), why)
		n := singleton.Output(dataflow.Count(slice.Emit(batch)), "n")
		ctx, cancel := context.WithTimeout(t.Context(), 5500*time.Millisecond)
		defer cancel()
		if err := dataflow.Run(ctx, flow); err != context.DeadlineExceeded {
			t.Errorf("Run returned %v", err)
		}
		if got, _ := n.Latest(); got != 5 {
			t.Errorf("%d firings, want 5", got)
		}
		dataflow.Local(func(at dataflow.Here) {
			dataflow.ForEach(dataflow.Interval(at, time.Second, why), func(time.Duration) { t.Error("fired") })
		})
	})
}
