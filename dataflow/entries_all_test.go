package dataflow_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
)

func numbered(flow *dataflow.Flow) (*dataflow.EntryInputPort[int, int], *dataflow.EntryOutputPort[int, int]) {
	in, entries := keyedsingleton.Input[int, int](dataflow.At[server](flow), "in")
	return in, keyedsingleton.Output(keyedsingleton.Map(entries, func(x int) int { return 10 * x }), "out")
}

// TestAllInOrder takes all entries in the order in which they came, including those from
// before the call, while others are taken by key. Slots in the table are reused meanwhile.
func TestAllInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, out := numbered(flow)
		app := start(t, flow)
		put := func(keys ...int) {
			for _, k := range keys {
				if err := in.Put(t.Context(), k, k); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
		put(3, 1, 2)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var got []int
		for k, v := range out.All(ctx) {
			if got = append(got, k); v != 10*k {
				t.Errorf("key %d has %d", k, v)
			}
			switch k {
			case 3:
				put(9, 8)
				if _, err := out.Take(t.Context(), 1); err != nil {
					t.Error(err)
				}
				put(7, 6)
			case 6:
				cancel()
			}
		}
		if want := []int{3, 2, 9, 8, 7, 6}; !slices.Equal(got, want) || out.Len() != 0 {
			t.Errorf("took %v, want %v, and %d are left", got, want, out.Len())
		}
		// A loop over All waits for further entries until the flow ends.
		got = nil
		over := make(chan struct{})
		go func() {
			defer close(over)
			for k := range out.All(t.Context()) {
				got = append(got, k)
			}
		}()
		put(12, 11)
		in.Close()
		<-over
		if want := []int{12, 11}; !slices.Equal(got, want) || app.Wait() != nil {
			t.Errorf("took %v, want %v; %v", got, want, app.Err())
		}
		for range out.All(t.Context()) {
			t.Error("there is an entry after all were taken")
		}
	})
}

// TestAllBreaks checks that breaking out of a loop over All takes the current entry and no
// other.
func TestAllBreaks(t *testing.T) {
	flow := dataflow.New()
	in, out := numbered(flow)
	start(t, flow)
	if _, err := in.PutBatch(t.Context(), []int{1, 2, 3}, []int{1, 2, 3}); err != nil {
		t.Fatal(err)
	}
	for range out.All(t.Context()) {
		break
	}
	if _, ok := out.Get(1); ok || out.Len() != 2 {
		t.Errorf("%d entries are left, want 2 and 3", out.Len())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for k := range out.All(ctx) {
		t.Errorf("took %d with a context that has ended", k)
	}
}

// TestAllFails checks that All returns the remaining entries of a flow that failed and then
// ends.
func TestAllFails(t *testing.T) {
	flow := dataflow.New()
	in, entries := keyedsingleton.Input[int, int](dataflow.At[server](flow), "in")
	out := keyedsingleton.Output(keyedsingleton.Map(entries, bomb), "out")
	app := start(t, flow)
	for _, x := range []int{5, 0} {
		in.Put(t.Context(), x, x)
	}
	var e *dataflow.StepError
	if err := app.Wait(); !errors.As(err, &e) {
		t.Fatal(err)
	}
	n := 0
	for range out.All(t.Context()) {
		n++
	}
	if n != 1 {
		t.Errorf("took %d entries of a flow that failed, want the one that came before", n)
	}
}

// TestAllShared has several goroutines take entries, some by key, and checks that each entry
// is taken once.
func TestAllShared(t *testing.T) {
	const keys, takers = 3000, 4
	flow := dataflow.New()
	in, out := numbered(flow)
	app := start(t, flow)
	var mu sync.Mutex
	had := make(map[int]int)
	note := func(k int) {
		mu.Lock()
		defer mu.Unlock()
		had[k]++
	}
	var wg sync.WaitGroup
	for range takers {
		wg.Go(func() {
			for k := range out.All(t.Context()) {
				note(k)
			}
		})
	}
	wg.Go(func() {
		for k := range keys {
			ctx, cancel := context.WithCancel(t.Context())
			wg.Go(func() {
				if k%5 == 0 {
					if _, err := out.Take(ctx, k); err == nil {
						note(k)
					}
				}
			})
			if err := in.Put(t.Context(), k, k); err != nil {
				t.Error(err)
			}
			cancel()
		}
		in.Close()
	})
	wg.Wait()
	for k := range keys {
		if had[k] != 1 {
			t.Errorf("key %d was taken %d times", k, had[k])
		}
	}
	if err := app.Wait(); err != nil || out.Len() != 0 {
		t.Errorf("%v, and %d entries are left", err, out.Len())
	}
}

// TestAllSimulated takes all entries in every schedule. Entries of different keys may come in
// any order.
func TestAllSimulated(t *testing.T) {
	sim.Exhaustive(t, func(s *sim.Sim) {
		in, out := numbered(s.Flow())
		s.Start()
		for _, k := range []int{4, 2, 3} {
			if err := in.Put(s.Context(), k, k); err != nil {
				t.Error(err)
			}
		}
		if v, err := out.Take(s.Context(), 2); v != 20 || err != nil {
			t.Errorf("Take = %d, %v", v, err)
		}
		in.Close()
		var got []int
		for k := range out.All(s.Context()) {
			got = append(got, k)
		}
		slices.Sort(got)
		if want := []int{3, 4}; !slices.Equal(got, want) {
			t.Errorf("took %v, want %v", got, want)
		}
	})
}
