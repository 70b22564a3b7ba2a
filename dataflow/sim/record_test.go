package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// A shop is a flow with everything that a recording must preserve: inputs that race, batches,
// snapshots, state, timers and asynchronous answers.
type shop struct {
	prices *dataflow.SharedInputPort[int]
	orders *dataflow.EntryInputPort[int, int]
	quotes *dataflow.OutputPort[string]
}

func newShop(flow *dataflow.Flow, ask func(context.Context, int) int) shop {
	at := dataflow.At[Server](flow)
	var s shop
	var news shared[int]
	var orders entries[int, int]
	s.prices, news = dataflow.SharedInput[int](at, "prices")
	s.orders, orders = keyedsingleton.Input[int, int](at, "orders")
	prices := dataflow.AssumeOrder(news, "the price that came last is the price")
	price := dataflow.Fold(prices, func() int { return 1 }, func(acc *int, p int) { *acc = p })
	asked := keyedsingleton.MapAsync(orders, ask, keyedsingleton.AsyncOptions{Concurrency: 4})
	late := keyedsingleton.AfterEach(orders, func(n int) time.Duration { return time.Duration(n%7) * time.Millisecond }, "tried")

	tick := slice.At(at)
	served, keep := slice.State(tick, 0)
	fresh := slice.BatchEntries(tick, asked, "which answers share a batch shows in the quote")
	total := singleton.Map(singleton.Zip(served, keyedsingleton.KeyCount(fresh)), func(p dataflow.Pair[int, int]) int { return p.First + p.Second })
	keep(total)
	quoted := keyedsingleton.CrossSingleton(keyedsingleton.CrossSingleton(fresh, slice.Snapshot(tick, price, "the price of the moment")), total)
	quotes := dataflow.Map(slice.Emit(keyedsingleton.Entries(quoted)), func(e dataflow.Entry[int, dataflow.Pair[dataflow.Pair[int, int], int]]) string { return e.String() })
	reminders := dataflow.Map(keyedsingleton.Keys(late), func(k int) string { return fmt.Sprintf("late %d", k) })
	s.quotes = dataflow.Output(dataflow.AssumeOrder(dataflow.Merge(quotes, reminders), "as they come"), "quotes")
	return s
}

// TestRerun checks that a production run with many goroutines is one of the schedules, and that a
// rerun gives the same output.
func TestRerun(t *testing.T) {
	var recording dataflow.Recording
	var produced []string
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Record: &recording, Queue: 8})
		s := newShop(flow, func(_ context.Context, n int) int {
			time.Sleep(time.Duration(n%5) * time.Millisecond)
			return n * 10
		})
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		read := make(chan struct{})
		go func() {
			defer close(read)
			for q := range s.quotes.All(t.Context()) {
				produced = append(produced, q)
			}
		}()
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				for i := range 25 {
					time.Sleep(time.Duration(i%3) * time.Millisecond)
					if err := s.orders.Put(t.Context(), 100*g+i, i); err != nil {
						t.Error(err)
					}
					if err := s.prices.Send(t.Context(), g*i); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		s.orders.Close()
		s.prices.Close()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		<-read
	})
	if len(produced) != 200 || recording.Steps() == 0 {
		t.Fatalf("%d quotes in %d steps", len(produced), recording.Steps())
	}
	sim.Rerun(t, &recording, func(sm *sim.Sim) {
		s := newShop(sm.Flow(), func(context.Context, int) int {
			sm.Errorf("a call is made again")
			return 0
		})
		sm.Start()
		if got := sim.Collect(sm, s.quotes); !slices.Equal(got, produced) {
			sm.Errorf("run again it gives\n%s\nand gave\n%s", strings.Join(got, "\n"), strings.Join(produced, "\n"))
		}
	})
}

// TestRerunOtherFlow checks that a recording of another flow is refused.
func TestRerunOtherFlow(t *testing.T) {
	var recording dataflow.Recording
	flow := dataflow.NewWithOptions(dataflow.Options{Record: &recording})
	in, xs := dataflow.Input[int](dataflow.At[Server](flow), "xs")
	dataflow.ForEach(xs, func(int) {})
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		if err := in.Send(t.Context(), i); err != nil {
			t.Fatal(err)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	story := sim.RerunFails(t, &recording, func(s *sim.Sim) {
		_, ks := keyedstream.Input[string, string](dataflow.At[Server](s.Flow()), "other")
		keyedsingleton.Inspect(keyedstream.First(ks), func(string) {})
		s.Start()
	})
	if !strings.Contains(story, "does not fit this flow") {
		t.Errorf("the story is %q", story)
	}
}
