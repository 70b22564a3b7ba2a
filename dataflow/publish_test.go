package dataflow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
)

type ledger struct{ dataflow.Process }

// A board is a flow whose ports of every kind show how many entries have arrived. Several
// goroutines put the numbers 0, 1, 2 …, so any of them may come before another. A reader who has
// seen all numbers below n must see at least n everywhere.
type board struct {
	in      *dataflow.EntryInputPort[int, int]
	first   *dataflow.EntryOutputPort[int, int]
	stream  *dataflow.OutputPort[int]
	keyed   *dataflow.OutputPort[dataflow.Entry[int, int]]
	counts  []*dataflow.SingletonOutputPort[int] // many, so that it takes time to show them all
	total   *dataflow.SingletonOutputPort[int]
	highest *dataflow.OptionalOutputPort[int]
	view    *dataflow.SingletonOutputPort[dataflow.View[int, int]]
	last    *dataflow.EntryOutputPort[int, int]
}

func newBoard(at server) *board {
	b := &board{}
	in, entries := keyedsingleton.Input[int, int](at, "in")
	b.in = in
	b.first = keyedsingleton.Output(entries, "first")
	values := keyedsingleton.Values(entries)
	b.stream = dataflow.Output(dataflow.AssumeOrder(values, "counted only"), "stream")
	b.keyed = keyedstream.Output(keyedsingleton.IntoKeyedStream(entries), "keyed")
	for i := range 12 {
		mapped := keyedsingleton.Map(entries, func(n int) int { return n + i })
		b.counts = append(b.counts, singleton.Output(keyedsingleton.KeyCount(mapped), fmt.Sprint("count ", i)))
	}
	b.total = singleton.Output(dataflow.Count(values), "total")
	b.highest = optional.Output(dataflow.Max(values), "highest")
	b.view = singleton.Output(keyedsingleton.IntoSingleton(entries), "view")
	b.last = keyedsingleton.Output(entries, "last")
	return b
}

// stale names a port that shows fewer than n entries or, unless k is negative, lacks entry k.
func (b *board) stale(k, n int) string {
	for i, c := range b.counts {
		if got, _ := c.Latest(); got < n {
			return fmt.Sprintf("count %d is %d", i, got)
		}
	}
	if got, _ := b.total.Latest(); got < n {
		return fmt.Sprintf("total is %d", got)
	}
	if got, _ := b.highest.Latest(); got < k {
		return fmt.Sprintf("highest is %d", got)
	}
	view, _ := b.view.Latest()
	if view.Len() < n || b.first.Len() < n || b.last.Len() < n {
		return fmt.Sprintf("a view has %d entries, and outputs have %d and %d", view.Len(), b.first.Len(), b.last.Len())
	}
	if k < 0 {
		return ""
	}
	if _, ok := view.Get(k); !ok {
		return "the view does not have the entry"
	}
	for _, out := range []*dataflow.EntryOutputPort[int, int]{b.first, b.last} {
		if _, ok := out.Get(k); !ok {
			return "Get does not have the entry"
		}
		if _, err := out.Await(ended, k); err != nil {
			return fmt.Sprint("Await does not have the entry: ", err)
		}
	}
	return ""
}

// ended is a cancelled context, with which a port returns only what is available.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// TestStepShowsAtAllPorts has a reader see an entry at one port, by each method, and look for it at all others.
// The senders keep a little ahead of the reader, so that it waits for the step that is being published.
func TestStepShowsAtAllPorts(t *testing.T) {
	const n = 5000
	// Each calls seen with an entry and the number of entries seen, until seen returns false.
	ways := map[string]func(ctx context.Context, b *board, seen func(k, n int) bool) error{
		"Await": func(ctx context.Context, b *board, seen func(k, n int) bool) error {
			for k := range n {
				if _, err := b.first.Await(ctx, k); err != nil || !seen(k, k+1) {
					return err
				}
			}
			return nil
		},
		"Next": func(ctx context.Context, b *board, seen func(k, n int) bool) error {
			for i := range n {
				k, err := b.stream.Next(ctx)
				if err != nil {
					return err
				}
				if _, err := b.keyed.Next(ended); err != nil {
					return fmt.Errorf("the other stream does not have element %d: %w", i, err)
				}
				if !seen(k, i+1) {
					return nil
				}
			}
			return nil
		},
		"All": func(ctx context.Context, b *board, seen func(k, n int) bool) error {
			i := 0
			for e := range b.keyed.All(ctx) {
				if i++; !seen(e.Key, i) || i == n {
					return nil
				}
			}
			return nil
		},
		"Watch": func(ctx context.Context, b *board, seen func(k, n int) bool) error {
			for count := range b.counts[0].Watch(ctx) {
				if !seen(-1, count) || count == n {
					return nil
				}
			}
			return nil
		},
	}
	for name, see := range ways {
		t.Run(name, func(t *testing.T) {
			flow := dataflow.NewWithOptions(dataflow.Options{Buffer: n + 1})
			b := newBoard(dataflow.At[server](flow))
			start(t, flow)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var senders sync.WaitGroup
			var next atomic.Int64
			ahead := make(chan struct{}, 2)
			for range 2 {
				senders.Go(func() {
					for {
						select {
						case ahead <- struct{}{}:
						case <-ctx.Done():
							return
						}
						k := int(next.Add(1)) - 1
						if k >= n {
							return
						}
						if err := b.in.Put(t.Context(), k, k); err != nil {
							t.Error(err)
						}
					}
				})
			}
			had := 0
			err := see(ctx, b, func(k, n int) bool {
				for ; had < n; had++ {
					<-ahead
				}
				what := b.stale(k, n)
				if what != "" {
					t.Errorf("after %d entries were seen, the last of them %d: %s", n, k, what)
				}
				return what == ""
			})
			if err != nil {
				t.Error(err)
			}
			stop()
			senders.Wait()
		})
	}
}

// TestOwnWritesAtOtherPorts has many clients put an entry, wait for it and look for it at other ports.
func TestOwnWritesAtOtherPorts(t *testing.T) {
	const clients, each = 64, 200
	flow := dataflow.New()
	in, entries := keyedsingleton.Input[int, int](dataflow.At[server](flow), "in")
	first := keyedsingleton.Output(entries, "first")
	var others []*dataflow.EntryOutputPort[int, int]
	for i := range 4 {
		others = append(others, keyedsingleton.Output(keyedsingleton.Map(entries, func(n int) int { return n + i }), fmt.Sprint("other ", i)))
	}
	view := singleton.Output(keyedsingleton.IntoSingleton(entries), "view")
	start(t, flow)
	var wg sync.WaitGroup
	var missing atomic.Int64
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				k := c*each + i
				if err := in.Put(t.Context(), k, k); err != nil {
					t.Error(err)
				}
				if _, err := first.Await(t.Context(), k); err != nil {
					t.Error(err)
				}
				// The view is checked first, because it is published last.
				v, _ := view.Latest()
				if _, ok := v.Get(k); !ok {
					missing.Add(1)
				}
				for _, out := range others {
					if _, ok := out.Get(k); !ok {
						missing.Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := missing.Load(); n > 0 {
		t.Errorf("%d times a client missed its own entry at another port", n)
	}
}

// TestCallsAndOtherLocationsSeeTheStep has an asynchronous call and a reader at another location
// look at the ports of the large step that caused them.
func TestCallsAndOtherLocationsSeeTheStep(t *testing.T) {
	const steps, each = 8, 2000
	flow := dataflow.New()
	here, there := dataflow.At[server](flow), dataflow.At[ledger](flow)
	in, numbers := dataflow.Input[int](here, "in")
	entries := keyedstream.First(dataflow.KeyBy(numbers, func(k int) int { return k }))
	var asked *dataflow.EntryOutputPort[int, int]
	var late atomic.Int64
	// The step makes calls and messages from the entries before it updates the ports.
	answers := keyedsingleton.MapAsync(entries, func(_ context.Context, k int) int {
		if _, ok := asked.Get(k); !ok {
			late.Add(1)
		}
		return k
	}, keyedsingleton.AsyncOptions{})
	moved := keyedsingleton.Output(keyedsingleton.Send(entries, there), "moved")
	for i := range 16 {
		keyedsingleton.Output(keyedsingleton.Map(entries, func(n int) int { return n + i }), fmt.Sprint("other ", i))
	}
	asked = keyedsingleton.Output(entries, "asked")
	count := singleton.Output(keyedsingleton.KeyCount(entries), "count")
	answered := keyedsingleton.Output(answers, "answered")
	start(t, flow)
	stale := 0
	for step := range steps {
		batch := make([]int, each)
		for i := range batch {
			batch[i] = step*each + i
		}
		sent := make(chan error)
		go func() {
			_, err := in.SendBatch(t.Context(), batch)
			sent <- err
		}()
		for _, k := range batch {
			if _, err := moved.Await(t.Context(), k); err != nil {
				t.Fatal(err)
			}
			c, _ := count.Latest()
			if _, ok := asked.Get(k); c < k+1 || !ok {
				stale++
			}
		}
		if err := <-sent; err != nil {
			t.Fatal(err)
		}
	}
	for k := range steps * each {
		if _, err := answered.Await(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	if stale > 0 || late.Load() > 0 {
		t.Errorf("of %d entries, %d seen at another location and %d of asynchronous calls did not show where they came from", steps*each, stale, late.Load())
	}
}

// TestCallsSeeTheStepInTheSimulator checks the same for calls in every schedule.
func TestCallsSeeTheStepInTheSimulator(t *testing.T) {
	sim.Exhaustive(t, func(s *sim.Sim) {
		in, entries := keyedsingleton.Input[int, int](dataflow.At[server](s.Flow()), "in")
		var asked *dataflow.EntryOutputPort[int, int]
		answers := keyedsingleton.MapAsync(entries, func(_ context.Context, k int) bool {
			_, ok := asked.Get(k)
			return ok
		}, keyedsingleton.AsyncOptions{})
		asked = keyedsingleton.Output(entries, "asked")
		answered := keyedsingleton.Output(answers, "answered")
		s.Start()
		for k := range 2 {
			if err := in.Put(s.Context(), k, k); err != nil {
				s.Fatalf("%v", err)
			}
		}
		for k := range 2 {
			if saw, err := answered.Await(s.Context(), k); !saw || err != nil {
				s.Fatalf("the call of key %d saw the entry: %v, %v", k, saw, err)
			}
		}
	})
}

// TestPanicPublishesNothing has a function panic after other operators of the step have passed
// values to ports. No port shows them, and values published before stay visible.
func TestPanicPublishesNothing(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	in, entries := keyedsingleton.Input[int, int](at, "in")
	before := keyedsingleton.Output(entries, "before")
	count := singleton.Output(keyedsingleton.KeyCount(entries), "count")
	stream := dataflow.Output(dataflow.AssumeOrder(keyedsingleton.Values(entries), "one at a time"), "stream")
	after := keyedsingleton.Output(keyedsingleton.Map(entries, func(n int) int {
		if n == 1 {
			panic("one")
		}
		return n
	}), "after")
	app := start(t, flow)
	for k := range 2 {
		if err := in.Put(t.Context(), k, k); k == 0 && err != nil {
			t.Fatal(err)
		}
	}
	var step *dataflow.StepError
	if err := app.Wait(); !errors.As(err, &step) {
		t.Fatal(err)
	}
	if c, _ := count.Latest(); c != 1 || before.Len() != 1 || after.Len() != 1 {
		t.Errorf("count %d, entries %d and %d; want 1 of each", c, before.Len(), after.Len())
	}
	if x, err := stream.Next(t.Context()); x != 0 || err != nil {
		t.Errorf("%d, %v; want the element of the step before", x, err)
	}
	if x, err := stream.Next(t.Context()); err == nil || err == io.EOF {
		t.Errorf("%d, %v; want the flow's error", x, err)
	}
	if v, err := before.Await(t.Context(), 1); !errors.As(err, &step) {
		t.Errorf("%d, %v; want the flow's error", v, err)
	}
}

// TestEndShowsEverything has a reader learn of the end at one port. All other ports then show
// everything, and end as well.
func TestEndShowsEverything(t *testing.T) {
	const n = 300
	for range 50 {
		flow := dataflow.NewWithOptions(dataflow.Options{Buffer: n})
		b := newBoard(dataflow.At[server](flow))
		start(t, flow)
		go func() {
			for k := range n {
				if err := b.in.Put(t.Context(), k, k); err != nil {
					t.Error(err)
				}
			}
			b.in.Close()
		}()
		seen := 0
		for range b.stream.All(t.Context()) {
			seen++
		}
		if what := b.stale(n-1, n); seen != n || what != "" {
			t.Fatalf("%d elements came, and after the end %s", seen, what)
		}
		if _, err := b.last.Await(t.Context(), n); err != io.EOF {
			t.Fatalf("a key that never came: %v, want io.EOF", err)
		}
		for range b.total.Watch(t.Context()) { // ends
		}
	}
}
