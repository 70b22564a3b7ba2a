package dataflow_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

type entries = dataflow.KeyedStream[string, int, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

// bomb panics on 0 and returns its argument otherwise.
func bomb(x int) int { return x * x / x }

// TestStepError gives every operator a function that panics at the third of four values. The
// error must name the operator, where it was built, its location and the key. Every call that
// waits for the flow must return the error.
func TestStepError(t *testing.T) {
	values := func(ks entries) dataflow.KeyedSingleton[string, int, server, bounds.BoundedValue] {
		return keyedstream.First(ks)
	}
	tests := []struct {
		op    string
		keyed bool
		build func(at server, ks entries)
	}{
		{"keyedstream.Map", true, func(_ server, ks entries) { keyedstream.Map(ks, bomb) }},
		{"keyedstream.MapWithKey", true, func(_ server, ks entries) { keyedstream.MapWithKey(ks, func(_ string, x int) int { return bomb(x) }) }},
		{"keyedstream.Filter", true, func(_ server, ks entries) { keyedstream.Filter(ks, func(x int) bool { return bomb(x) > 0 }) }},
		{"keyedstream.FilterMap", true, func(_ server, ks entries) {
			keyedstream.FilterMap(ks, func(x int) (int, bool) { return bomb(x), true })
		}},
		{"keyedstream.Fold", true, func(_ server, ks entries) {
			keyedstream.Fold(ks, func() int { return 0 }, func(acc *int, x int) { *acc += bomb(x) })
		}},
		{"keyedstream.FoldEarlyStop", true, func(_ server, ks entries) {
			keyedstream.FoldEarlyStop(ks, func() int { return 0 }, func(acc *int, x int) bool { return bomb(x) < 0 })
		}},
		{"keyedstream.FoldEarlyStopWithin", true, func(_ server, ks entries) {
			keyedstream.FoldEarlyStopWithin(ks, func() int { return 0 }, func(acc *int, x int) bool { *acc = bomb(x); return x == 1 }, keyedstream.Retain{Keys: 10}, "tried")
		}},
		{"keyedstream.Scan", true, func(_ server, ks entries) {
			keyedstream.Scan(ks, func() int { return 0 }, func(_ *int, x int, emit func(int)) { emit(bomb(x)) })
		}},
		{"keyedstream.ScanFirst", true, func(_ server, ks entries) {
			keyedstream.ScanFirst(ks, func() int { return 0 }, func(_ *int, x int, emit func(int)) (int, bool) { return bomb(x), true })
		}},
		{"keyedstream.Machine", true, func(_ server, ks entries) {
			keyedstream.Machine(ks, func() int { return 0 }, func(_ *int, x int, do *keyedstream.Turn[string, int, int]) { do.Decide(bomb(x)) })
		}},
		{"keyedstream.TimedMachine", true, func(_ server, ks entries) {
			type turn = keyedstream.TimedTurn[string, int, int]
			keyedstream.TimedMachine(ks, func() int { return 0 }, func(_ *int, x int, do *turn) { do.Decide(bomb(x)) }, func(*int, keyedstream.Timer, *turn) {}, "tested")
		}},
		{"keyedsingleton.Map", true, func(_ server, ks entries) { keyedsingleton.Map(values(ks), bomb) }},
		{"keyedsingleton.MapWithKey", true, func(_ server, ks entries) {
			keyedsingleton.MapWithKey(values(ks), func(_ string, x int) int { return bomb(x) })
		}},
		{"keyedsingleton.Filter", true, func(_ server, ks entries) { keyedsingleton.Filter(values(ks), func(x int) bool { return bomb(x) > 0 }) }},
		{"keyedsingleton.FilterWithKey", true, func(_ server, ks entries) {
			keyedsingleton.FilterWithKey(values(ks), func(_ string, x int) bool { return bomb(x) > 0 })
		}},
		{"keyedsingleton.FilterMap", true, func(_ server, ks entries) {
			keyedsingleton.FilterMap(values(ks), func(x int) (int, bool) { return bomb(x), true })
		}},
		{"keyedsingleton.Inspect", true, func(_ server, ks entries) { keyedsingleton.Inspect(values(ks), func(x int) { _ = bomb(x) }) }},
		{"keyedsingleton.InspectWithKey", true, func(_ server, ks entries) {
			keyedsingleton.InspectWithKey(values(ks), func(_ string, x int) { _ = bomb(x) })
		}},
		{"keyedsingleton.MapAsync", true, func(_ server, ks entries) {
			keyedsingleton.MapAsync(values(ks), func(_ context.Context, x int) int { return bomb(x) }, keyedsingleton.AsyncOptions{})
		}},
		{"keyedsingleton.AfterEach", true, func(_ server, ks entries) {
			keyedsingleton.AfterEach(values(ks), func(x int) time.Duration { return time.Duration(bomb(x)) }, why)
		}},
		{"keyedsingleton.Map", true, func(at server, ks entries) {
			batch := slice.BatchEntries(slice.At(at), values(ks), why)
			slice.EmitEntries(keyedsingleton.Map(batch, bomb))
		}},
		{"dataflow.Map", false, func(_ server, ks entries) { dataflow.Map(keyedstream.Values(ks), bomb) }},
		{"dataflow.MapRef", false, func(_ server, ks entries) {
			dataflow.MapRef(keyedstream.Values(ks), func(x *int) int { return bomb(*x) })
		}},
		{"dataflow.Filter", false, func(_ server, ks entries) {
			dataflow.Filter(keyedstream.Values(ks), func(x int) bool { return bomb(x) > 0 })
		}},
		{"dataflow.FilterMap", false, func(_ server, ks entries) {
			dataflow.FilterMap(keyedstream.Values(ks), func(x int) (int, bool) { return bomb(x), true })
		}},
		{"dataflow.FlatMap", false, func(_ server, ks entries) {
			dataflow.FlatMap(keyedstream.Values(ks), func(x int, emit func(int)) { emit(bomb(x)) })
		}},
		{"dataflow.Inspect", false, func(_ server, ks entries) { dataflow.Inspect(keyedstream.Values(ks), func(x int) { _ = bomb(x) }) }},
		{"dataflow.KeyBy", false, func(_ server, ks entries) { dataflow.KeyBy(keyedstream.Values(ks), bomb) }},
		{"dataflow.KeyByRef", false, func(_ server, ks entries) {
			dataflow.KeyByRef(keyedstream.Values(ks), func(x *int) int { return bomb(*x) })
		}},
		{"dataflow.Fold", false, func(_ server, ks entries) {
			s := dataflow.AssumeOrder(keyedstream.Values(ks), why)
			dataflow.Fold(s, func() int { return 0 }, func(acc *int, x int) { *acc += bomb(x) })
		}},
	}
	for _, test := range tests {
		for _, before := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sent before start %t", test.op, before), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					flow := dataflow.New()
					at := dataflow.At[server](flow)
					in, ks := keyedstream.Input[string, int](at, "values")
					put, requests := keyedsingleton.Input[string, int](at, "requests")
					test.build(at, ks)
					stream := dataflow.Output(keyedstream.Values(keyedstream.Filter(ks, func(int) bool { return false })), "stream")
					answers := keyedsingleton.Output(requests, "answers")
					send := func() {
						for i, x := range []int{1, 2, 0, 3} {
							in.Send(t.Context(), string(rune('a'+i)), x)
						}
					}
					if before {
						send()
					}
					app := start(t, flow)
					awaited, next := make(chan error, 1), make(chan error, 1)
					go func() { _, err := answers.Await(t.Context(), "never"); awaited <- err }()
					go func() { _, err := stream.Next(t.Context()); next <- err }()
					if !before {
						synctest.Wait()
						send()
					}
					err := app.Wait()
					var e *dataflow.StepError
					if !errors.As(err, &e) {
						t.Fatalf("Wait() = %v", err)
					}
					if e.Op != test.op || e.Location != "server" || !regexp.MustCompile(`^failure_test.go:\d+$`).MatchString(e.Pos) {
						t.Errorf("the error is in %s at %s of %s, want %s", e.Op, e.Pos, e.Location, test.op)
					}
					if test.keyed && e.Key != "c" || !test.keyed && e.Key != nil {
						t.Errorf("the key is %v", e.Key)
					}
					var cause runtime.Error
					if !errors.As(err, &cause) || !strings.Contains(string(e.Stack), "bomb") {
						t.Errorf("the cause is %v, the stack %s", e.Err, e.Stack)
					}
					for where, got := range map[string]error{
						"Await": <-awaited, "Next": <-next, "Err": app.Err(), "Stop": app.Stop(t.Context()),
						"Send": in.Send(t.Context(), "d", 1), "Put": put.Put(t.Context(), "d", 1),
					} {
						if got != err {
							t.Errorf("%s returned %v", where, got)
						}
					}
				})
			})
		}
	}
}

// TestStepErrorWords checks the text of a StepError.
func TestStepErrorWords(t *testing.T) {
	e := &dataflow.StepError{Op: "keyedstream.Fold", Pos: "main.go:12", Location: "Server", Key: "ann", Err: errors.New("no funds")}
	if got, want := e.Error(), "dataflow: keyedstream.Fold (main.go:12) at Server on key ann: no funds"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if !errors.Is(e, e.Err) {
		t.Error("the cause cannot be matched")
	}
}

// TestStartTwice checks that a flow can be started only once.
func TestStartTwice(t *testing.T) {
	flow := dataflow.New()
	start(t, flow)
	if _, err := dataflow.Start(t.Context(), flow); err != dataflow.ErrStarted {
		t.Errorf("the second Start returned %v", err)
	}
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("too late"))
	if _, err := dataflow.Start(ended, dataflow.New()); err == nil || err.Error() != "too late" {
		t.Errorf("Start in an ended context returned %v", err)
	}
}

// TestInputAfterClosedInput closes an input while the flow is built and checks that an input
// added later is open.
func TestInputAfterClosedInput(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	first, _ := dataflow.Input[int](at, "first")
	first.Close()
	second, s := dataflow.Input[int](at, "second")
	out := dataflow.Output(s, "out")
	if err := second.Send(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	second.Close()
	if err := dataflow.Run(t.Context(), flow); err != nil {
		t.Fatal(err)
	}
	if x, err := out.Next(t.Context()); x != 7 || err != nil {
		t.Errorf("got %d, %v", x, err)
	}
}

// TestNothingIsLeft checks that every goroutine of a flow ends with it, however the flow
// ends. A synctest bubble waits for its goroutines.
func TestNothingIsLeft(t *testing.T) {
	for how, end := range map[string]func(t *testing.T, app *dataflow.App, cancel func(), in *dataflow.EntryInputPort[int, int]){
		"stop": func(t *testing.T, app *dataflow.App, _ func(), _ *dataflow.EntryInputPort[int, int]) {
			app.Stop(t.Context())
		},
		"close":  func(_ *testing.T, app *dataflow.App, _ func(), in *dataflow.EntryInputPort[int, int]) { in.Close() },
		"cancel": func(_ *testing.T, app *dataflow.App, cancel func(), _ *dataflow.EntryInputPort[int, int]) { cancel() },
		"panic": func(t *testing.T, _ *dataflow.App, _ func(), in *dataflow.EntryInputPort[int, int]) {
			in.Put(t.Context(), 0, 0)
		},
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				before := bubbled()
				flow := dataflow.New()
				in, requests := keyedsingleton.Input[int, int](dataflow.At[server](flow), "requests")
				called := keyedsingleton.MapAsync(requests, func(ctx context.Context, x int) int {
					select {
					case <-ctx.Done():
					case <-time.After(time.Minute):
					}
					return bomb(x)
				}, keyedsingleton.AsyncOptions{Concurrency: 2})
				late := keyedsingleton.After(called, time.Hour, why)
				out := keyedsingleton.Output(late, "late")
				app, err := dataflow.Start(ctx, flow)
				if err != nil {
					t.Fatal(err)
				}
				for i := range 5 {
					in.Put(ctx, i+1, i+1)
				}
				go out.Await(t.Context(), 3)
				synctest.Wait()
				end(t, app, cancel, in)
				app.Wait()
				synctest.Wait()
				<-time.After(time.Minute) // for the call that MapAsync made before the panic
				if after := bubbled(); len(after) > len(before) {
					t.Errorf("%d goroutines, then %d:\n%s", len(before), len(after), strings.Join(after, "\n\n"))
				}
			})
		})
	}
}

// bubbled returns the stacks of the goroutines in synctest bubbles. It does not use
// runtime.NumGoroutine, which also counts goroutines that run finalizers, and, for a moment,
// goroutines that have ended.
func bubbled() []string {
	buf := make([]byte, 1<<20)
	stacks := strings.Split(string(buf[:runtime.Stack(buf, true)]), "\n\n")
	return slices.DeleteFunc(stacks, func(stack string) bool {
		header, _, _ := strings.Cut(stack, "\n")
		return !strings.Contains(header, "synctest bubble")
	})
}

// TestEmptyFlow checks that a flow without operators ends at once.
func TestEmptyFlow(t *testing.T) {
	for _, flow := range []*dataflow.Flow{dataflow.New(), func() *dataflow.Flow { f := dataflow.New(); dataflow.At[server](f); return f }()} {
		if err := dataflow.Run(t.Context(), flow); err != nil {
			t.Error(err)
		}
	}
}

// TestGoexit checks that a function that ends its goroutine, as FailNow does, ends the flow
// with an error instead of blocking it.
func TestGoexit(t *testing.T) {
	flow := dataflow.New()
	in, xs := dataflow.Input[int](dataflow.At[server](flow), "xs")
	dataflow.ForEach(xs, func(int) { runtime.Goexit() })
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	go in.Send(t.Context(), 1)
	var step *dataflow.StepError
	if err := app.Wait(); !errors.As(err, &step) || step.Op != "dataflow.ForEach" {
		t.Errorf("the flow ended with %v", err)
	}
}
