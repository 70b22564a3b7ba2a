package dataflow_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
)

// TestWatch checks what a reader of a value receives: first the current value, then the newest
// value each time it looks, until the end. The location does not wait for readers.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 1, Buffer: 1})
		at := dataflow.At[server](flow)
		in, s := dataflow.Input[int](at, "numbers")
		sum := singleton.Output(dataflow.Sum(s), "sum")
		constant := singleton.Output(singleton.Of(at, "fixed"), "constant")
		if _, ok := sum.Latest(); ok {
			t.Error("there is a value before the start")
		}
		app := start(t, flow)
		if got, ok := constant.Latest(); got != "fixed" || !ok {
			t.Errorf("the constant is %q, %t", got, ok)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var quick, slow, gone []int
		look := make(chan bool)
		var wg sync.WaitGroup
		wg.Go(func() {
			for x := range sum.Watch(t.Context()) {
				quick = append(quick, x)
			}
		})
		wg.Go(func() {
			for x := range sum.Watch(t.Context()) {
				slow = append(slow, x)
				<-look
			}
		})
		wg.Go(func() {
			for x := range sum.Watch(ctx) {
				gone = append(gone, x)
			}
		})
		for i := range 5 {
			synctest.Wait()
			if i == 3 {
				cancel()
				synctest.Wait()
			}
			if err := in.Send(t.Context(), 1); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		close(look)
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		for name, x := range map[string][2][]int{
			"quick": {quick, {0, 1, 2, 3, 4, 5}}, "slow": {slow, {0, 5}}, "gone": {gone, {0, 1, 2, 3}},
		} {
			if !slices.Equal(x[0], x[1]) {
				t.Errorf("%s saw %v, want %v", name, x[0], x[1])
			}
		}
		for range constant.Watch(t.Context()) {
			break // a reader may leave
		}
		var late []int
		for x := range sum.Watch(t.Context()) {
			late = append(late, x)
		}
		if !slices.Equal(late, []int{5}) {
			t.Errorf("after the end a reader sees %v", late)
		}
	})
}

// TestWatchOptional checks that a reader sees a value appear and disappear.
func TestWatchOptional(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, s := dataflow.Input[int](dataflow.At[server](flow), "numbers")
		last := dataflow.Reduce(s, func(last *int, x int) { *last = x })
		even := optional.Output(optional.Filter(last, func(x int) bool { return x%2 == 0 }), "even")
		app := start(t, flow)
		var got []string
		var wg sync.WaitGroup
		wg.Go(func() {
			for x := range even.Watch(t.Context()) {
				got = append(got, x.String())
			}
		})
		for _, x := range []int{1, 3, 2, 4, 5, 7, 6} {
			synctest.Wait()
			if err := in.Send(t.Context(), x); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		wg.Wait()
		if want := []string{"2", "4", "none", "6"}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// TestWatchUnderLoad checks, also with the race detector, that every reader sees values in order
// and the last one, and that a step of many elements yields one value.
func TestWatchUnderLoad(t *testing.T) {
	const senders, each = 4, 300
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 4})
	in, s := dataflow.SharedInput[int](dataflow.At[server](flow), "pairs")
	// Readers see both elements of a pair or neither.
	both := dataflow.FlatMap(s, func(x int, emit func(int)) { emit(x); emit(-x) })
	count := singleton.Output(dataflow.Count(both), "count")
	app := start(t, flow)
	var readers, all sync.WaitGroup
	for range 3 {
		readers.Go(func() {
			before := -1
			for n := range count.Watch(t.Context()) {
				if n <= before || n%2 != 0 {
					t.Errorf("%d after %d", n, before)
				}
				before = n
			}
			if before != 2*senders*each {
				t.Errorf("the last count is %d", before)
			}
		})
	}
	for range senders {
		all.Go(func() {
			for i := range each {
				if err := in.Send(t.Context(), i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	readers.Wait()
	if got := fmt.Sprint(count.Latest()); got != fmt.Sprint(2*senders*each, true) {
		t.Error(got)
	}
}
