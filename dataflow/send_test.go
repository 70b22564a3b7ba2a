package dataflow_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

type third struct{ dataflow.Process }

// TestSendKeepsOrder sends more than the queues hold over three locations, one of them slow. It
// expects every element in order, and then the end.
func TestSendKeepsOrder(t *testing.T) {
	const n = 20_000
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 16, Buffer: 16})
	one, two, three := dataflow.At[server](flow), dataflow.At[client](flow), dataflow.At[third](flow)
	in, xs := dataflow.Input[int](one, "xs")
	there := dataflow.Send(dataflow.Map(xs, func(x int) int { return x + 1 }), two)
	further := dataflow.Send(dataflow.Map(there, func(x int) int { return x - 1 }), three)
	out := dataflow.Output(further, "out")
	app := start(t, flow)
	go func() {
		defer in.Close()
		for i := 0; i < n; i += 100 {
			batch := make([]int, 100)
			for j := range batch {
				batch[j] = i + j
			}
			if _, err := in.SendBatch(t.Context(), batch); err != nil {
				t.Error(err)
			}
		}
	}()
	want := 0
	for x := range out.All(t.Context()) {
		if x != want {
			t.Fatalf("got %d, want %d", x, want)
		}
		want++
	}
	if want != n {
		t.Errorf("got %d elements", want)
	}
	if err := app.Wait(); err != nil {
		t.Error(err)
	}
}

// TestSendBackpressure sends while nobody reads. The number of accepted elements is bounded, and
// all of them arrive once somebody reads.
func TestSendBackpressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 4, Buffer: 4})
		in, xs := dataflow.Input[int](dataflow.At[server](flow), "xs")
		out := dataflow.Output(dataflow.Send(xs, dataflow.At[client](flow)), "out")
		app := start(t, flow)
		accepted := 0
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for in.Send(ctx, accepted) == nil {
				accepted++
			}
		}()
		synctest.Wait()
		// Each location has a queue and what it took from it; the output holds unread elements.
		if accepted < 4 || accepted > 5*4+5 {
			t.Errorf("%d elements are on their way", accepted)
		}
		cancel()
		synctest.Wait()
		in.Close()
		for i := range accepted {
			if x, err := out.Next(t.Context()); x != i || err != nil {
				t.Fatalf("got %d, %v, want %d", x, err, i)
			}
		}
		if _, err := out.Next(t.Context()); err != io.EOF {
			t.Errorf("it ends with %v", err)
		}
		if err := app.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// circle builds two locations that send each other everything for some rounds, as a protocol between them would.
func circle(flow *dataflow.Flow, rounds int) (in, in2 *dataflow.InputPort[int], out *dataflow.OutputPort[int]) {
	one, two := dataflow.At[server](flow), dataflow.At[client](flow)
	in, xs := dataflow.Input[int](one, "xs")
	in2, ys := dataflow.Input[int](two, "ys")
	loop, again := dataflow.Cycle[int, dataflow.NoOrder](one, "again")
	there := dataflow.Send(dataflow.Merge(xs, again), two)
	back := dataflow.Send(dataflow.Map(dataflow.Merge(there, ys), func(x int) int { return x + 1 }), one)
	done, more := dataflow.Partition(back, func(x int) bool { return x%1000 >= rounds })
	loop.Complete(more)
	return in, in2, dataflow.Output(done, "done")
}

// TestSendInCircles lets two locations send each other more than the queues hold, while both
// receive input from outside. They continue, and end together.
func TestSendInCircles(t *testing.T) {
	const n, rounds = 3000, 7
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 8, Buffer: 8})
	in, in2, out := circle(flow, rounds)
	app := start(t, flow)
	for _, port := range []*dataflow.InputPort[int]{in, in2} {
		go func() {
			defer port.Close()
			for i := range n {
				if err := port.Send(t.Context(), 1000*i); err != nil {
					t.Error(err)
					return
				}
			}
		}()
	}
	seen := make(map[int]int)
	for x := range out.All(t.Context()) {
		seen[x]++
	}
	if err := app.Wait(); err != nil {
		t.Error(err)
	}
	for i := range n {
		if seen[1000*i+rounds] != 2 {
			t.Fatalf("%d came %d times", i, seen[1000*i+rounds])
		}
	}
	if len(seen) != n {
		t.Errorf("%d different elements came", len(seen))
	}
}

// TestSendInCirclesEnds checks that an idle circle ends exactly when the last input of its
// locations is closed, whichever that is.
func TestSendInCirclesEnds(t *testing.T) {
	for _, first := range []int{0, 1} {
		synctest.Test(t, func(t *testing.T) {
			flow := dataflow.New()
			in, in2, out := circle(flow, 3)
			app := start(t, flow)
			ports := []*dataflow.InputPort[int]{in, in2}
			ports[first].Close()
			synctest.Wait()
			if err := ports[1-first].Send(t.Context(), 1000); err != nil {
				t.Fatal(err)
			}
			if x, err := out.Next(t.Context()); x != 1003 || err != nil {
				t.Fatalf("got %d, %v", x, err)
			}
			synctest.Wait()
			select {
			case <-app.Done():
				t.Fatal("it ended while an input was open")
			default:
			}
			ports[1-first].Close()
			if err := app.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestSendStop stops a flow with many elements in transit. Every accepted element arrives, also in a circle.
func TestSendStop(t *testing.T) {
	const n = 500
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 8})
	in, in2, out := circle(flow, 5)
	app := start(t, flow)
	var wg sync.WaitGroup
	for _, port := range []*dataflow.InputPort[int]{in, in2} {
		wg.Go(func() {
			for i := range n {
				if err := port.Send(t.Context(), 1000*i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := 0
	for range out.All(t.Context()) {
		got++
	}
	if got != 2*n {
		t.Errorf("%d of %d came", got, 2*n)
	}
	if err := in.Send(t.Context(), 1); !errors.Is(err, dataflow.ErrClosed) {
		t.Errorf("a send after the end returned %v", err)
	}
}

// TestSendOfConstants sends constants, before the other location has started, and ends at once.
func TestSendOfConstants(t *testing.T) {
	for _, order := range []bool{true, false} {
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2})
		if order {
			dataflow.At[client](flow)
		}
		one := dataflow.At[server](flow)
		out := dataflow.Output(dataflow.Send(dataflow.Of(one, 1, 2, 3, 4, 5), dataflow.At[client](flow)), "out")
		app := start(t, flow)
		if got := slices.Collect(out.All(t.Context())); !slices.Equal(got, []int{1, 2, 3, 4, 5}) {
			t.Errorf("got %v", got)
		}
		if err := app.Wait(); err != nil {
			t.Error(err)
		}
	}
}

// TestSendOfTimers checks that a pending timer at one location keeps another from ending.
func TestSendOfTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, jobs := keyedsingleton.Input[string, int](dataflow.At[server](flow), "jobs")
		late := keyedsingleton.After(jobs, time.Hour, why)
		slow := keyedsingleton.MapAsync(keyedsingleton.Send(late, dataflow.At[client](flow)), func(ctx context.Context, x int) int {
			<-time.After(time.Hour)
			return 2 * x
		}, keyedsingleton.AsyncOptions{})
		out := keyedsingleton.Output(slow, "late")
		app := start(t, flow)
		if err := in.Put(t.Context(), "a", 21); err != nil {
			t.Fatal(err)
		}
		in.Close()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		if x, err := out.Await(t.Context(), "a"); x != 42 || err != nil {
			t.Errorf("got %d, %v", x, err)
		}
	})
}

// TestSendFailure has a function panic at the second location while the first is stalled. Every
// caller gets the error, which names the location.
func TestSendFailure(t *testing.T) {
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2})
	in, xs := dataflow.Input[int](dataflow.At[server](flow), "xs")
	dataflow.Map(dataflow.Send(xs, dataflow.At[client](flow)), func(x int) int { return 1 / (100 - x) })
	app := start(t, flow)
	var err error
	for i := 0; err == nil; i++ {
		err = in.Send(t.Context(), i)
	}
	var e *dataflow.StepError
	if !errors.As(err, &e) || e.Location != "client" || e.Op != "dataflow.Map" || app.Wait() != err {
		t.Errorf("the error is %v", err)
	}
}

// TestSendCancel cancels the context of a flow while a circle is busy.
func TestSendCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 4})
	in, _, _ := circle(flow, 999)
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := in.Send(t.Context(), 1000*i); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	if err := app.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
}

// TestDivide divides two streams among three members. Every key is at one member, with all its
// values, in the order of each stream.
func TestDivide(t *testing.T) {
	const keys, values = 200, 30
	type got struct{ source, number int }
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 32, Buffer: 32})
	members := dataflow.Members[server](flow, 3)
	parts := make([][]dataflow.KeyedStream[string, got, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce], len(members))
	ports := make([]*dataflow.KeyedInputPort[string, got], len(members))
	for i, at := range members {
		in, s := keyedstream.Input[string, got](at, "values")
		ports[i], parts[i] = in, keyedstream.Divide(s, members)
	}
	outs := make([]*dataflow.OutputPort[dataflow.Entry[string, got]], len(members))
	for i := range members {
		all := keyedstream.Merge(keyedstream.Merge(parts[0][i], parts[1][i]), parts[2][i])
		outs[i] = dataflow.Output(keyedstream.Entries(all), "all")
	}
	app := start(t, flow)
	for source, port := range ports {
		go func() {
			defer port.Close()
			for n := range values {
				for k := range keys {
					if err := port.Send(t.Context(), string(rune('a'+k)), got{source, n}); err != nil {
						t.Error(err)
						return
					}
				}
			}
		}()
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	owner, total := make(map[string]int), 0
	for i, out := range outs {
		wg.Go(func() {
			next := make(map[dataflow.Entry[string, int]]int)
			for e := range out.All(t.Context()) {
				from := dataflow.Entry[string, int]{Key: e.Key, Value: e.Value.source}
				if e.Value.number != next[from] {
					t.Errorf("member %d got %v, want number %d", i, e, next[from])
				}
				next[from]++
				mu.Lock()
				if m, ok := owner[e.Key]; ok && m != i {
					t.Errorf("%q is at members %d and %d", e.Key, m, i)
				}
				owner[e.Key] = i
				total++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if err := app.Wait(); err != nil || total != keys*values*len(ports) {
		t.Errorf("%d values came, and %v", total, err)
	}
	shares := make([]int, len(members))
	for _, m := range owner {
		shares[m]++
	}
	if slices.Min(shares) < keys/len(members)/2 {
		t.Errorf("the members have %v keys", shares)
	}
}

// TestDivideOfConstants divides constants.
func TestDivideOfConstants(t *testing.T) {
	flow := dataflow.New()
	members := dataflow.Members[server](flow, 2)
	ones := dataflow.KeyBy(dataflow.Of(members[0], 1, 2, 3, 4, 5, 6, 7, 8), itself)
	var outs []*dataflow.OutputPort[int]
	for _, part := range keyedstream.Divide(ones, members) {
		outs = append(outs, dataflow.Output(keyedstream.Values(part), "part"))
	}
	app := start(t, flow)
	var all []int
	for _, out := range outs {
		all = append(all, slices.Collect(out.All(t.Context()))...)
	}
	slices.Sort(all)
	if err := app.Wait(); err != nil || !slices.Equal(all, []int{1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("got %v, %v", all, err)
	}
}

// TestSendAsksAndAnswers has a slice at one location query a state at another: one round trip each,
// in the order of the questions.
func TestSendAsksAndAnswers(t *testing.T) {
	flow := dataflow.New()
	one, two := dataflow.At[server](flow), dataflow.At[client](flow)
	in, questions := dataflow.Input[int](one, "questions")
	asked := dataflow.Send(slice.Emit(slice.Batch(slice.At(one), questions, why)), two)
	answers := dataflow.Output(dataflow.Send(dataflow.Scan(asked, zero, step), one), "answers")
	app := start(t, flow)
	for i := range 100 {
		if err := in.Send(t.Context(), i); err != nil {
			t.Fatal(err)
		}
		if x, err := answers.Next(t.Context()); x != i*(i+1)/2 || err != nil {
			t.Fatalf("got %d, %v", x, err)
		}
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}
