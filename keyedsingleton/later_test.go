package keyedsingleton_test

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

type server struct{ dataflow.Process }

const why = "tested"

func start(t *testing.T, flow *dataflow.Flow) *dataflow.App {
	t.Helper()
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// TestAfterTimes checks to the nanosecond when entries appear, and in which order.
func TestAfterTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, jobs := keyedsingleton.Input[string, time.Duration](dataflow.At[server](flow), "jobs")
		began := time.Now()
		var got []string
		note := func(what string) func(string, time.Duration) {
			return func(k string, _ time.Duration) { got = append(got, fmt.Sprint(what, k, " ", time.Since(began))) }
		}
		keyedsingleton.InspectWithKey(keyedsingleton.After(jobs, 10*time.Second, why), note("after "))
		keyedsingleton.InspectWithKey(keyedsingleton.AfterEach(jobs, func(d time.Duration) time.Duration { return d }, why), note("each "))
		in.Put(t.Context(), "a", 20*time.Second) // appears at the start
		<-time.After(time.Second)
		began = time.Now()
		app := start(t, flow)
		in.Put(t.Context(), "b", 5*time.Second)
		in.Put(t.Context(), "c", -time.Second)
		<-time.After(3 * time.Second)
		in.Put(t.Context(), "d", 2*time.Second)
		in.Put(t.Context(), "e", time.Nanosecond)
		in.Put(t.Context(), "f", 17*time.Second)
		in.Close()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		want := []string{
			"each c 0s", "each e 3.000000001s", "each b 5s", "each d 5s", "after a 10s", "after b 10s", "after c 10s",
			"after d 13s", "after e 13s", "after f 13s", "each a 20s", "each f 20s",
		}
		if !slices.Equal(got, want) {
			t.Errorf("got\n%q, want\n%q", got, want)
		}
	})
}

// TestAfterRace races a deadline against an answer. The first of them in the history must
// win, for every reader.
func TestAfterRace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, calls := keyedsingleton.Input[string, string](at, "calls")
		answer, answers := keyedstream.Input[string, string](at, "answers")
		late := keyedsingleton.Map(keyedsingleton.After(calls, time.Minute, why), func(string) string { return "late" })
		both := keyedstream.Merge(answers, keyedsingleton.IntoKeyedStream(late))
		out := keyedsingleton.Output(keyedstream.First(keyedstream.AssumeOrder(both, why)), "out")
		start(t, flow)
		for _, k := range []string{"fast", "slow", "lost"} {
			in.Put(t.Context(), k, "call")
		}
		<-time.After(59 * time.Second)
		answer.Send(t.Context(), "fast", "answer")
		<-time.After(2 * time.Second)
		answer.Send(t.Context(), "slow", "answer")
		for k, want := range map[string]string{"fast": "answer", "slow": "late", "lost": "late"} {
			if got, err := out.Await(t.Context(), k); got != want || err != nil {
				t.Errorf("%s: %s, %v, want %s", k, got, err, want)
			}
		}
	})
}

// TestStopDropsTimers stops a flow in which one timer has fired and another is pending. It
// checks that the entry of the first exists and that the second never fires.
func TestStopDropsTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, jobs := keyedsingleton.Input[int, int](dataflow.At[server](flow), "jobs")
		out := keyedsingleton.Output(keyedsingleton.After(jobs, time.Minute, why), "late")
		app := start(t, flow)
		in.Put(t.Context(), 1, 1)
		<-time.After(30 * time.Second)
		in.Put(t.Context(), 2, 2)
		<-time.After(40 * time.Second)
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if x, err := out.Await(t.Context(), 1); x != 1 || err != nil {
			t.Errorf("what had fired is %d, %v", x, err)
		}
		if _, err := out.Await(t.Context(), 2); err != io.EOF {
			t.Errorf("what had not fired: %v", err)
		}
	})
}

// TestManyTimers sets timers from several goroutines while others fire.
func TestManyTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2})
		in, jobs := keyedsingleton.Input[int, int](dataflow.At[server](flow), "jobs")
		fired := make(map[int]time.Time)
		late := keyedsingleton.AfterEach(jobs, func(ms int) time.Duration { return time.Duration(ms) * time.Millisecond }, why)
		keyedsingleton.InspectWithKey(late, func(k, _ int) { fired[k] = time.Now() })
		app := start(t, flow)
		var due [800]time.Time
		var left atomic.Int32
		left.Store(8)
		for s := range 8 {
			go func() {
				for n := range 100 {
					k := s*100 + n
					ms := k * 7919 % 500
					due[k] = time.Now().Add(time.Duration(ms) * time.Millisecond)
					if err := in.Put(t.Context(), k, ms); err != nil {
						t.Error(err)
					}
					<-time.After(time.Duration(k*31%40) * time.Millisecond)
				}
				if left.Add(-1) == 0 {
					in.Close()
				}
			}()
		}
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		for k, at := range due {
			if !fired[k].Equal(at) {
				t.Errorf("timer %d fired at %v, want %v", k, fired[k], at)
			}
		}
	})
}

// TestMapAsync checks that concurrent calls are limited, that a location stops taking records when too many calls wait,
// and that the flow waits for answers before it ends.
func TestMapAsync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 4})
		in, requests := keyedsingleton.Input[int, int](dataflow.At[server](flow), "requests")
		var running, most atomic.Int32
		answers := keyedsingleton.MapAsync(requests, func(_ context.Context, x int) int {
			most.Store(max(most.Load(), running.Add(1)))
			<-time.After(time.Second)
			running.Add(-1)
			return x * x
		}, keyedsingleton.AsyncOptions{Concurrency: 3})
		out := keyedsingleton.Output(answers, "answers")
		app := start(t, flow)
		var accepted atomic.Int32
		go func() {
			for x := range 40 {
				if err := in.Put(t.Context(), x, x); err != nil {
					t.Error(err)
				}
				accepted.Add(1)
			}
			in.Close()
		}()
		synctest.Wait()
		// Three calls run. Five wait, one more than Queue, so the location stops. Four requests are in the queue.
		if n := accepted.Load(); n != 12 {
			t.Errorf("%d requests were accepted, want 12", n)
		}
		began := time.Now()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(began); d != 14*time.Second {
			t.Errorf("forty calls, three at a time, took %v, want 14 s", d)
		}
		if most.Load() != 3 {
			t.Errorf("%d calls were made at once, want 3", most.Load())
		}
		for x := range 40 {
			if y, err := out.Await(t.Context(), x); y != x*x || err != nil {
				t.Errorf("the answer to %d is %d, %v", x, y, err)
			}
		}
	})
}

// TestMapAsyncEnds checks that Stop waits for all calls that were requested, and does not
// end their contexts.
func TestMapAsyncEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, requests := keyedsingleton.Input[int, time.Duration](dataflow.At[server](flow), "requests")
		answers := keyedsingleton.MapAsync(requests, func(ctx context.Context, d time.Duration) error {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(d):
				return nil
			}
		}, keyedsingleton.AsyncOptions{Concurrency: 1})
		out := keyedsingleton.Output(answers, "answers")
		app := start(t, flow)
		in.Put(t.Context(), 1, time.Minute)
		in.Put(t.Context(), 2, time.Minute)
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		for k := range 2 {
			if got, err := out.Await(t.Context(), k+1); got != nil || err != nil {
				t.Errorf("call %d: %v, %v", k+1, got, err)
			}
		}
	})
}

// TestLaterFeedsSlice sends what a slice emits through a call and a timer back into the
// same slice. This is allowed, because it is not feedback without delay.
func TestLaterFeedsSlice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, requests := keyedsingleton.Input[string, int](dataflow.At[server](flow), "requests")
		tick := slice.At(dataflow.At[server](flow))
		fresh := slice.EmitEntries(slice.BatchEntries(tick, requests, why))
		called := keyedsingleton.MapAsync(fresh, func(_ context.Context, x int) int { return x + 1 }, keyedsingleton.AsyncOptions{})
		back := slice.EmitEntries(slice.BatchEntries(tick, keyedsingleton.After(called, time.Second, why), why))
		out := keyedsingleton.Output(back, "out")
		app := start(t, flow)
		in.Put(t.Context(), "a", 1)
		in.Close()
		if x, err := out.Await(t.Context(), "a"); x != 2 || err != nil {
			t.Errorf("got %d, %v", x, err)
		}
		app.Wait()
	})
}

// TestLongTimers sets timers for longer than time lasts: none fires, and nothing is forgotten.
func TestLongTimers(t *testing.T) {
	const long = time.Duration(math.MaxInt64)
	build := func(flow *dataflow.Flow) (in *dataflow.KeyedInputPort[string, int], show func() string) {
		in, values := keyedstream.Input[string, int](dataflow.At[server](flow), "values")
		first := keyedstream.First(values)
		after := keyedsingleton.Output(keyedsingleton.After(first, long, why), "after")
		each := keyedsingleton.Output(keyedsingleton.AfterEach(first, func(int) time.Duration { return long - 1 }, why), "each")
		left := keyedsingleton.Output(keyedsingleton.ForgetAfter(first, long, why), "left")
		within := keyedsingleton.Output(keyedstream.FirstWithin(values, keyedstream.Retain{For: long}, why), "within")
		isThree := func(n *int, x int) bool { *n += x; return *n >= 3 }
		open := keyedsingleton.Output(keyedstream.FoldEarlyStopWithin(values, func() int { return 0 }, isThree, keyedstream.Retain{Keys: 100, Open: long}, why), "open")
		return in, func() string {
			return fmt.Sprint(after.Len(), each.Len(), left.Len(), within.Len(), open.Len())
		}
	}
	send := func(t *testing.T, in *dataflow.KeyedInputPort[string, int]) {
		for i := range 4 {
			<-time.After(time.Hour)
			for _, k := range []string{"a", "b", fmt.Sprint(i)} {
				if err := in.Send(t.Context(), k, 1); err != nil {
					t.Fatal(err)
				}
			}
			synctest.Wait()
		}
	}
	const want = "0 0 6 6 2"
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			flow := dataflow.New()
			in, show := build(flow)
			app := start(t, flow)
			send(t, in)
			if got := show(); got != want {
				t.Errorf("there are %s, want %s", got, want)
			}
			if err := app.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("durable", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			type ports struct {
				in   *dataflow.KeyedInputPort[string, int]
				show func() string
			}
			log := journal.NewMemory(journal.MemoryOptions{Partitions: 1})
			for range 2 { // the second has the timers that the first has set
				app, err := durable.Start(t.Context(), func(flow *dataflow.Flow) ports {
					in, show := build(flow)
					return ports{in, show}
				}, durable.Options{Log: journal.Opened{Log: log.Reopen()}, Partitions: 1, EndOnFailure: true})
				if err != nil {
					t.Fatal(err)
				}
				send(t, app.Ports.in)
				if got := app.Ports.show(); got != want {
					t.Errorf("there are %s, want %s", got, want)
				}
				if err := app.Stop(t.Context()); err != nil {
					t.Error(err)
				}
			}
		})
	})
}
