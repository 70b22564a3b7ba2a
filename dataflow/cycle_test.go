package dataflow_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// countdown feeds each number back, decremented, until it is 0, and returns all numbers.
func countdown[O dataflow.Order](at server, numbers dataflow.Stream[int, server, unbounded, O, dataflow.ExactlyOnce]) dataflow.Stream[int, server, unbounded, dataflow.NoOrder, dataflow.ExactlyOnce] {
	loop, again := dataflow.Cycle[int, dataflow.NoOrder](at, "again")
	all := dataflow.Merge(numbers, again)
	batch := slice.Batch(slice.At(at), all, why)
	loop.Complete(slice.Emit(dataflow.FilterMap(batch, func(n int) (int, bool) { return n - 1, n > 0 })))
	return all
}

// TestCycleEnds checks that a flow that is stopped, or whose inputs are closed, ends as
// soon as nothing is fed back, and not before.
func TestCycleEnds(t *testing.T) {
	for _, end := range []string{"close before start", "close", "stop"} {
		t.Run(end, func(t *testing.T) {
			flow := dataflow.New()
			at := dataflow.At[server](flow)
			in, s := dataflow.Input[int](at, "numbers")
			n := singleton.Output(dataflow.Count(countdown(at, s)), "n")
			send := func() {
				for _, x := range []int{1000, 0, 3} {
					if err := in.Send(t.Context(), x); err != nil {
						t.Fatal(err)
					}
				}
			}
			var err error
			switch end {
			case "close before start":
				send()
				in.Close()
				err = dataflow.Run(t.Context(), flow)
			case "close":
				app := start(t, flow)
				send()
				in.Close()
				err = app.Wait()
			case "stop":
				app := start(t, flow)
				send()
				err = app.Stop(t.Context())
			}
			if err != nil {
				t.Fatal(err)
			}
			if got, _ := n.Latest(); got != 1001+1+4 {
				t.Errorf("%d numbers, want %d", got, 1001+1+4)
			}
		})
	}
}

// TestCycleNeverBlocks feeds back far more than the queue holds. Nothing of it is refused
// or waits for room, and a slow reader loses nothing.
func TestCycleNeverBlocks(t *testing.T) {
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 1, Buffer: 1})
	at := dataflow.At[server](flow)
	in, s := dataflow.Input[int](at, "numbers")
	loop, again := dataflow.Cycle[int, dataflow.NoOrder](at, "again")
	all := dataflow.Merge(s, again)
	batch := slice.Batch(slice.At(at), all, why)
	loop.Complete(slice.Emit(dataflow.FlatMap(batch, func(depth int, emit func(int)) {
		for range 10 {
			if depth > 0 {
				emit(depth - 1)
			}
		}
	})))
	out := dataflow.Output(all, "numbers")
	app := start(t, flow)
	var wg sync.WaitGroup
	wg.Go(func() {
		for range 3 {
			if err := in.Send(t.Context(), 3); err != nil {
				t.Error(err)
			}
		}
		in.Close()
	})
	n := 0
	for range out.All(t.Context()) {
		n++
	}
	wg.Wait()
	if err := app.Wait(); err != nil {
		t.Fatal(err)
	}
	if n != 3*1111 {
		t.Errorf("%d numbers, want %d", n, 3*1111)
	}
}

// TestCycleIsInTheQueue checks that an input waits while many elements are fed back.
func TestCycleIsInTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2, Buffer: 1})
		at := dataflow.At[server](flow)
		in, s := dataflow.Input[int](at, "numbers")
		loop, again := dataflow.Cycle[int, dataflow.TotalOrder](at, "again")
		batch := slice.Batch(slice.At(at), s, why)
		loop.Complete(slice.Emit(dataflow.FlatMap(batch, func(n int, emit func(int)) {
			for i := range n {
				emit(i)
			}
		})))
		out := dataflow.Output(s, "numbers")
		dataflow.Count(again)
		app := start(t, flow)
		// The output exceeds its bound, so elements that are fed back wait.
		if _, err := in.SendBatch(t.Context(), []int{1, 2}); err != nil {
			t.Fatal(err)
		}
		sent := false
		go func() {
			if err := in.Send(t.Context(), 0); err != nil {
				t.Error(err)
			}
			sent = true
		}()
		synctest.Wait()
		if sent {
			t.Error("an input was accepted although three records wait")
		}
		for range 2 {
			out.Next(t.Context())
		}
		synctest.Wait()
		if !sent {
			t.Error("an input still waits")
		}
		out.Next(t.Context())
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCycleOrder is case F7: an element that is fed back comes after the one it was made
// from, and the others keep their order.
func TestCycleOrder(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	in, s := dataflow.Input[int](at, "numbers")
	loop, again := dataflow.Cycle[int, dataflow.TotalOrder](at, "again")
	all := dataflow.MergeOrdered(s, again, why)
	batch := slice.Batch(slice.At(at), all, why)
	loop.Complete(slice.Emit(dataflow.FilterMap(batch, func(n int) (int, bool) { return n + 9, n == 1 })))
	var got []int
	dataflow.ForEach(all, func(n int) { got = append(got, n) })
	if _, err := in.SendBatch(t.Context(), []int{1, 2}); err != nil {
		t.Fatal(err)
	}
	in.Close()
	if err := dataflow.Run(t.Context(), flow); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, []int{1, 2, 10}) && !slices.Equal(got, []int{1, 10, 2}) {
		t.Errorf("got %v", got)
	}
}

// TestCycleThrough is the second half of case F9: a cycle is accepted if anything on it
// takes a record of its own.
func TestCycleThrough(t *testing.T) {
	type looped = dataflow.Stream[int, server, unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
	byItself := func(s looped) dataflow.KeyedSingleton[int, int, server, bounds.BoundedValue] {
		ks := dataflow.KeyBy(dataflow.AssumeOrder(s, why), func(n int) int { return n })
		return keyedstream.First(ks)
	}
	less := func(n int) (int, bool) { return n - 1, n > 0 }
	for name, way := range map[string]func(server, looped) looped{
		"slice": func(at server, s looped) looped {
			return slice.Emit(dataflow.FilterMap(slice.Batch(slice.At(at), s, why), less))
		},
		"snapshot": func(at server, s looped) looped {
			count := slice.Snapshot(slice.At(at), dataflow.Count(s), why)
			return dataflow.WeakenOrder(slice.Emit(dataflow.FilterMap(singleton.IntoStream(count), func(n int) (int, bool) { return 4 - n, n > 0 && n < 5 })))
		},
		"MapAsync": func(_ server, s looped) looped {
			called := keyedsingleton.MapAsync(byItself(s), func(_ context.Context, n int) int { return n }, keyedsingleton.AsyncOptions{})
			return dataflow.FilterMap(keyedsingleton.Values(called), less)
		},
		"After": func(_ server, s looped) looped {
			return dataflow.FilterMap(keyedsingleton.Values(keyedsingleton.After(byItself(s), time.Minute, why)), less)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				flow := dataflow.New()
				at := dataflow.At[server](flow)
				in, s := dataflow.Input[int](at, "numbers")
				loop, again := dataflow.Cycle[int, dataflow.NoOrder](at, "again")
				all := dataflow.Merge(s, again)
				loop.Complete(way(at, all))
				n := singleton.Output(dataflow.Count(all), "n")
				app := start(t, flow)
				in.Send(t.Context(), 4)
				in.Close()
				if err := app.Wait(); err != nil {
					t.Fatal(err)
				}
				if got, _ := n.Latest(); got != 5 {
					t.Errorf("%d numbers, want 5", got)
				}
			})
		})
	}
}

// TestCycleUnderLoad feeds back while several goroutines send. It is for the race
// detector.
func TestCycleUnderLoad(t *testing.T) {
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 8})
	at := dataflow.At[server](flow)
	in, s := dataflow.SharedInput[int](at, "numbers")
	sum := singleton.Output(dataflow.Sum(countdown(at, s)), "sum")
	app := start(t, flow)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 200 {
				if err := in.Send(t.Context(), i%5); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	in.Close()
	if err := app.Wait(); err != nil {
		t.Fatal(err)
	}
	want := 4 * 40 * (0 + 1 + 3 + 6 + 10)
	if got, _ := sum.Latest(); got != want {
		t.Errorf("the sum is %d, want %d", got, want)
	}
}

// TestCycleOfFailure checks that a cycle ends with its flow.
func TestCycleOfFailure(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	in, s := dataflow.Input[int](at, "numbers")
	dataflow.Map(countdown(at, s), func(n int) int { return bomb(n) })
	app := start(t, flow)
	in.Send(t.Context(), 3)
	if err := app.Wait(); err == nil || err != app.Err() {
		t.Errorf("Wait() = %v", err)
	}

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	endless := dataflow.New()
	at = dataflow.At[server](endless)
	loop, again := dataflow.Cycle[int, dataflow.NoOrder](at, "again")
	in, s = dataflow.Input[int](at, "numbers")
	loop.Complete(slice.Emit(slice.Batch(slice.At(at), dataflow.Merge(s, again), why)))
	app, err := dataflow.Start(ctx, endless)
	if err != nil {
		t.Fatal(err)
	}
	in.Send(ctx, 1)
	in.Close()
	cancel()
	if err := app.Wait(); err != context.Canceled {
		t.Error(fmt.Sprint("Wait() = ", err))
	}
}
