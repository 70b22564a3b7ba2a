package dataflow_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// only returns the status of a flow with one location.
func only(t *testing.T, app *dataflow.App) dataflow.LocationStatus {
	t.Helper()
	all := app.Status()
	if len(all) != 1 {
		t.Fatalf("%d locations", len(all))
	}
	return all[0]
}

// operator returns the status of the operator with a name, or with a port of that name.
func operator(t *testing.T, s dataflow.LocationStatus, name string) dataflow.OperatorStatus {
	t.Helper()
	for _, op := range s.Operators {
		if op.Name == name || op.Port == name {
			return op
		}
	}
	t.Fatalf("no operator %s", name)
	panic("not reached")
}

func output(t *testing.T, s dataflow.LocationStatus, port string) dataflow.OutputStatus {
	t.Helper()
	for _, out := range s.Outputs {
		if out.Port == port {
			return out
		}
	}
	t.Fatalf("no output %s", port)
	panic("not reached")
}

// want compares figures with their printed form, separated by spaces.
func want(t *testing.T, what string, want string, figures ...any) {
	t.Helper()
	if got := fmt.Sprintln(figures...); got != want+"\n" {
		t.Errorf("%s: got %swant %s", what, got, want)
	}
}

// TestStatus checks each figure of an idle flow.
func TestStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Count: true, Queue: 8, Buffer: 100})
		at := dataflow.At[server](flow)
		in, s := dataflow.Input[int](at, "in")
		put, entries := keyedsingleton.Input[int, string](at, "put")
		out := dataflow.Output(dataflow.Filter(dataflow.Map(dataflow.Map(s, itself), itself), positive), "out")
		kept := keyedsingleton.Output(entries, "kept")
		singleton.Output(dataflow.Count(s), "count")
		keyedstream.Count(dataflow.KeyBy(s, itself))
		dataflow.ForEach(slice.Emit(slice.Batch(slice.At(at), s, why)), func(int) {})
		keyedsingleton.After(entries, time.Hour, why)
		release := make(chan bool)
		keyedsingleton.MapAsync(entries, func(_ context.Context, s string) string { <-release; return s }, keyedsingleton.AsyncOptions{Concurrency: 2})
		began := time.Now()
		app := start(t, flow)
		if st := only(t, app); st.Name != "server" || st.Stale || st.Ended || !st.Time.Equal(time.Now()) || st.Blocked != nil {
			t.Errorf("after the start: %+v", st)
		}
		before := only(t, app)
		for i := range 4 {
			in.Send(t.Context(), i-1)
		}
		in.SendBatch(t.Context(), []int{7, 7, 7, 8})
		time.Sleep(time.Minute)
		for k := range 5 {
			put.Put(t.Context(), k, "x")
		}
		out.Next(t.Context())
		kept.Take(t.Context(), 2)
		synctest.Wait()
		st := only(t, app)
		want(t, "steps and records", "10 13", st.Steps-before.Steps, st.Records-before.Records)
		want(t, "queue", "0 8 0", st.Queued, st.Bound, st.Senders)
		want(t, "calls", "2 3", st.Calls, st.CallsWaiting)
		want(t, "timers", "5 1h1m0s", st.Timers, st.NextTimer.Sub(began))
		want(t, "out", "5 6 100", output(t, st, "out").Unread, output(t, st, "out").Given, output(t, st, "out").Bound)
		want(t, "kept", "4 5 0", output(t, st, "kept").Unread, output(t, st, "kept").Given, output(t, st, "kept").Bound)
		want(t, "count", "0 0", output(t, st, "count").Unread, output(t, st, "count").Bound)
		want(t, "slices", "1 5", len(st.Slices), st.Slices[0].Runs-before.Slices[0].Runs)
		for name, figures := range map[string]string{ // entered, kept, calls, calls that wait, timers
			"in": "8 0 0 0 0", "put": "5 5 0 0 0", "dataflow.Map": "8 0 0 0 0", "dataflow.Filter": "8 0 0 0 0",
			"out": "6 5 0 0 0", "kept": "5 4 0 0 0", "keyedstream.Count": "8 6 0 0 0", "dataflow.Count": "8 0 0 0 0",
			"keyedsingleton.After": "5 5 0 0 5", "keyedsingleton.MapAsync": "5 0 2 3 0", "dataflow.ForEach": "8 0 0 0 0",
		} {
			op := operator(t, st, name)
			want(t, name, figures, op.Entered, op.Kept, op.Calls, op.CallsWaiting, op.Timers)
		}
		if op := operator(t, st, "keyedstream.Count"); op.Bytes < 6*16 || op.Pos == "" {
			t.Errorf("%+v", op)
		}
		close(release)
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		st = only(t, app)
		want(t, "after Stop", "true false 0 0 true", st.Ended, st.Stale, st.Calls, st.Queued, st.Steps > before.Steps+10)
	})
}

// TestStatusOfFusedOperators has chains of operators that are fused into one loop. Each operator is
// counted, for single elements and for batches.
func TestStatusOfFusedOperators(t *testing.T) {
	for n := range 7 {
		for name, end := range map[string]func(numbers) numbers{
			"nothing": func(s numbers) numbers { return s },
			"Filter":  func(s numbers) numbers { return dataflow.Filter(s, positive) },
			"Inspect": func(s numbers) numbers { return dataflow.Inspect(s, func(int) {}) },
		} {
			flow := dataflow.NewWithOptions(dataflow.Options{Count: true})
			in, s := dataflow.Input[int](dataflow.At[server](flow), "in")
			for range n {
				s = dataflow.Map(s, itself)
			}
			dataflow.Output(end(s), "out")
			app := start(t, flow)
			in.Send(t.Context(), 1)
			in.SendBatch(t.Context(), []int{2, 3, 4})
			for i, op := range only(t, app).Operators {
				if op.Entered != 4 {
					t.Errorf("%d maps and %s: operator %d, %s, took %d elements, want 4", n, name, i, op.Name, op.Entered)
				}
			}
		}
	}
}

// TestStatusOfAFunctionThatTakesLong has a function that blocks. Status returns the previous
// snapshot after a moment, also when the function itself calls it.
func TestStatusOfAFunctionThatTakesLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, s := dataflow.Input[int](dataflow.At[server](flow), "in")
		_, other := dataflow.Input[int](dataflow.At[client](flow), "other")
		dataflow.Output(other, "others")
		entered, release := make(chan bool), make(chan bool)
		var app *dataflow.App
		var own []dataflow.LocationStatus
		out := dataflow.Output(dataflow.Map(s, func(x int) int {
			if x == 1 {
				own = app.Status()
				close(entered)
				<-release
			}
			return x
		}), "out")
		app = start(t, flow)
		in.Send(t.Context(), 0)
		st := app.Status()
		want(t, "idle", "2 false false 1", len(st), st[0].Stale, st[1].Stale, st[0].Records)
		go in.Send(context.Background(), 1)
		<-entered
		want(t, "by itself", "true false 1", own[0].Stale, own[1].Stale, own[0].Records)
		in.Send(t.Context(), 2)
		began := time.Now()
		for range 3 {
			busy := app.Status()
			want(t, "busy", "true false 1 1 1", busy[0].Stale, busy[1].Stale, busy[0].Records, busy[0].Queued, busy[0].Outputs[0].Unread)
			if !busy[0].Time.Equal(st[0].Time) {
				t.Errorf("copied at %v and %v", busy[0].Time, st[0].Time)
			}
		}
		if d := time.Since(began); d > 30*time.Millisecond {
			t.Errorf("three calls took %v", d)
		}
		go func() {
			time.Sleep(5 * time.Millisecond)
			close(release)
		}()
		st = app.Status() // the goroutine that holds the run token answers while Status waits
		want(t, "at the end of the step", "false", st[0].Stale)
		for range 3 {
			out.Next(t.Context())
		}
		want(t, "afterwards", "false 3 0", app.Status()[0].Stale, app.Status()[0].Records, app.Status()[0].Queued)
	})
}

// TestStatusOfAFlowThatFailed checks the final figures of a failed flow, including those of a
// location in which a function is still running.
func TestStatusOfAFlowThatFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, s := dataflow.Input[int](dataflow.At[server](flow), "in")
		there, r := dataflow.Input[int](dataflow.At[client](flow), "there")
		dataflow.ForEach(s, func(x int) {
			if x == 2 {
				panic("two")
			}
		})
		entered, release := make(chan bool), make(chan bool)
		dataflow.ForEach(r, func(int) { close(entered); <-release })
		app := start(t, flow)
		go there.Send(context.Background(), 1)
		<-entered
		for i := range 4 {
			in.Send(t.Context(), i)
		}
		if app.Err() == nil {
			t.Fatal("it did not fail")
		}
		st := app.Status()
		want(t, "failed", "true false 3", st[0].Ended, st[0].Stale, st[0].Records)
		want(t, "still running", "true true", st[1].Ended, st[1].Stale)
		close(release)
		synctest.Wait()
		st = app.Status()
		want(t, "over", "true false 1", st[1].Ended, st[1].Stale, st[1].Records)
	})
}

// TestStatusOfAStoppedLocation checks the figures of a location that an unread output has stopped.
func TestStatusOfAStoppedLocation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 2, Buffer: 4, OnBlocked: func(*dataflow.BlockedError) {}})
		at, there := dataflow.At[server](flow), dataflow.At[client](flow)
		in, s := dataflow.Input[int](at, "in")
		debug := dataflow.Output(dataflow.Send(s, there), "debug")
		app := start(t, flow)
		began := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		sent := make(chan int)
		go func() {
			n := 0
			for in.Send(ctx, n) == nil {
				n++
			}
			sent <- n
		}()
		time.Sleep(time.Hour)
		st := app.Status()
		for i, words := range []string{
			`dataflow: location server waits for client is stopped: output "debug" (`,
			`dataflow: location client is stopped: output "debug" (`,
		} {
			s := st[i]
			if s.Stale || s.Blocked == nil || s.Blocked.Err != nil || len(s.Blocked.Error()) < len(words) || s.Blocked.Error()[:len(words)] != words {
				t.Errorf("%+v: %v", s, s.Blocked)
			}
			if !s.Since.Equal(began) {
				t.Errorf("stopped since %v, want %v", s.Since, began)
			}
		}
		want(t, "waiting", "1 2 2 true", st[0].Senders, st[0].Queued, st[1].Queued, st[1].Outputs[0].Unread > st[1].Outputs[0].Bound)
		want(t, "of these unread", fmt.Sprint(st[1].Records, " ", st[1].Records), st[1].Outputs[0].Unread, st[1].Outputs[0].Given)
		cancel()
		n := <-sent
		for range n {
			debug.Next(t.Context())
		}
		synctest.Wait()
		st = app.Status()
		want(t, "read", fmt.Sprintf("<nil> true 0 0 %d 0", n), st[0].Blocked, st[0].Since.IsZero(), st[0].Senders, st[1].Queued, st[1].Records, st[1].Outputs[0].Unread)
		app.Stop(t.Context())
	})
}

// TestStatusWhileManySend runs senders, readers and calls of Status concurrently, for the race
// detector. No figure may be lost or decrease.
func TestStatusWhileManySend(t *testing.T) {
	const senders, each = 4, 500
	flow := dataflow.NewWithOptions(dataflow.Options{Count: true, Queue: 16, Buffer: 16})
	at := dataflow.At[server](flow)
	in, s := dataflow.SharedInput[int](at, "in")
	put, entries := keyedsingleton.Input[int, int](at, "put")
	kept := keyedsingleton.Output(keyedsingleton.MapAsync(entries, func(_ context.Context, x int) int { return x }, keyedsingleton.AsyncOptions{}), "kept")
	keyedstream.Count(dataflow.KeyBy(s, func(x int) int { return x % 7 }))
	sent := dataflow.Send(dataflow.Map(dataflow.Map(s, itself), itself), dataflow.At[client](flow))
	out := dataflow.Output(sent, "out")
	app := start(t, flow)
	var work, asking sync.WaitGroup
	stop := make(chan bool)
	for range 2 {
		asking.Go(func() {
			var steps, given uint64
			for {
				for _, st := range app.Status() {
					if st.Name != "client" {
						continue
					}
					if st.Steps < steps || st.Outputs[0].Given < given {
						t.Errorf("%d steps after %d, %d given after %d", st.Steps, steps, st.Outputs[0].Given, given)
					}
					steps, given = st.Steps, st.Outputs[0].Given
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for i := range senders {
		work.Go(func() {
			for j := range each {
				in.Send(t.Context(), j)
				if k := i*each + j; j%4 == 0 {
					put.Put(t.Context(), k, k)
					kept.Take(t.Context(), k)
				}
			}
		})
		work.Go(func() {
			for range each {
				out.Next(t.Context())
			}
		})
	}
	work.Wait()
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	close(stop)
	asking.Wait()
	st := app.Status()
	const all, puts = senders * each, senders * each / 4
	want(t, "at the server", fmt.Sprint(all+2*puts, " ", all, " ", all, " ", all, " ", 7), st[0].Records, operator(t, st[0], "in").Entered,
		operator(t, st[0], "dataflow.Map").Entered, operator(t, st[0], "keyedstream.Count").Entered, operator(t, st[0], "keyedstream.Count").Kept)
	want(t, "at the client", fmt.Sprint(all, " ", all, " ", all, " 0"), st[1].Records, operator(t, st[1], "dataflow.Send").Entered, st[1].Outputs[0].Given, st[1].Outputs[0].Unread)
}

// TestStatusOfEveryOperator checks that each operator of the graph has a status.
func TestStatusOfEveryOperator(t *testing.T) {
	flow := everyOperator()
	app := start(t, flow)
	graph := flow.Graph()
	var all []dataflow.OperatorStatus
	slices := 0
	for i, st := range app.Status() {
		if st.Name != graph.Locations[i] {
			t.Errorf("location %d is %s, want %s", i, st.Name, graph.Locations[i])
		}
		all = append(all, st.Operators...)
		slices += len(st.Slices)
	}
	if len(all) != len(graph.Operators) || slices != len(graph.Slices) {
		t.Fatalf("%d operators and %d slices, the graph has %d and %d", len(all), slices, len(graph.Operators), len(graph.Slices))
	}
	for i, op := range graph.Operators {
		if all[i].Name != op.Name || all[i].Port != op.Port || all[i].Pos != op.Pos {
			t.Errorf("%+v, want %+v", all[i], op)
		}
	}
}

// TestStatusOfAnEmptyFlow checks that an empty flow has no status. TestZeroValues covers the zero App.
func TestStatusOfAnEmptyFlow(t *testing.T) {
	if st := start(t, dataflow.New()).Status(); len(st) != 0 {
		t.Error(st)
	}
}
