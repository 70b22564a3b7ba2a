package dataflow_test

import (
	"errors"
	"regexp"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type anyKeys = dataflow.KeyedStream[int, any, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

// TestStepErrorOfStreams gives operators over streams and values a function that panics on 0. The error
// must name the operator and where it was built. The same holds for an operator without a function that
// receives an unhashable key.
func TestStepErrorOfStreams(t *testing.T) {
	zero := func() int { return 0 }
	add := func(acc *int, x int) { *acc += bomb(x) }
	last := func(s numbers) dataflow.Singleton[int, server, unbounded] {
		return dataflow.Fold(s, func() int { return 1 }, func(last *int, x int) { *last = x })
	}
	var here server
	unhashable := func(s numbers) anyKeys {
		return keyedstream.Map(dataflow.KeyBy(s, func(x int) int { return x }), func(x int) any {
			if x == 0 {
				return []int{x}
			}
			return x
		})
	}
	for op, build := range map[string]func(numbers){
		"keyedstream.Unique": func(s numbers) { keyedstream.Unique(unhashable(s)) },
		"keyedstream.LookupKeyedStream": func(s numbers) {
			r := slice.At(here)
			keyedstream.LookupKeyedStream(slice.BatchKeyed(r, unhashable(s), why), slice.BatchKeyed(r, dataflow.KeyBy(s, func(x int) any { return x }), why))
		},
		"dataflow.Reduce":                 func(s numbers) { dataflow.Reduce(s, add) },
		"dataflow.FoldGrowing":            func(s numbers) { dataflow.FoldGrowing(s, zero, add, why) },
		"dataflow.FoldCommutative":        func(s numbers) { dataflow.FoldCommutative(s, zero, add, why) },
		"dataflow.FoldCommutativeGrowing": func(s numbers) { dataflow.FoldCommutativeGrowing(s, zero, add, why) },
		"dataflow.Scan": func(s numbers) {
			dataflow.Scan(s, zero, func(_ *int, x int, emit func(int)) { emit(bomb(x)) })
		},
		"dataflow.Partition": func(s numbers) { dataflow.Partition(s, func(x int) bool { return bomb(x) > 0 }) },
		"dataflow.TryMap":    func(s numbers) { dataflow.TryMap(s, func(x int) (int, error) { return bomb(x), nil }) },
		"dataflow.Unique": func(s numbers) {
			dataflow.Unique(dataflow.Map(s, func(x int) any {
				if x == 0 {
					return []int{x}
				}
				return x
			}))
		},
		"singleton.Filter":     func(s numbers) { singleton.Filter(last(s), func(x int) bool { return bomb(x) > 0 }) },
		"singleton.FilterMap":  func(s numbers) { singleton.FilterMap(last(s), func(x int) (int, bool) { return bomb(x), true }) },
		"singleton.MapGrowing": func(s numbers) { singleton.MapGrowing(dataflow.Count(s), func(n int) int { return bomb(3 - n) }, why) },
		"optional.Map":         func(s numbers) { optional.Map(dataflow.Min(s), bomb) },
		"optional.Filter":      func(s numbers) { optional.Filter(dataflow.Min(s), func(x int) bool { return bomb(x) > 0 }) },
		"optional.FilterMap": func(s numbers) {
			optional.FilterMap(dataflow.Min(s), func(x int) (int, bool) { return bomb(x), true })
		},
	} {
		for _, at := range []string{"one by one", "in a batch", "before the start"} {
			t.Run(op+", "+at, func(t *testing.T) {
				flow := dataflow.New()
				here = dataflow.At[server](flow)
				in, s := dataflow.Input[int](here, "numbers")
				build(s)
				out := singleton.Output(dataflow.Count(s), "count")
				all, want := []int{1, 2, 0}, 0
				send := func() { in.SendBatch(t.Context(), all) }
				if at == "one by one" {
					want = 2
					send = func() {
						for _, x := range all {
							in.Send(t.Context(), x)
						}
					}
				}
				if at == "before the start" {
					send()
				}
				app := start(t, flow)
				if at != "before the start" {
					send()
				}
				var e *dataflow.StepError
				in.Close() // without a failure the flow ends here
				if err := app.Wait(); !errors.As(err, &e) {
					t.Fatalf("Wait() = %v", err)
				}
				if e.Op != op || !regexp.MustCompile(`^failure_stream_test.go:\d+$`).MatchString(e.Pos) {
					t.Errorf("the error is in %s at %s", e.Op, e.Pos)
				}
				n := 0
				for n = range out.Watch(t.Context()) {
				}
				if n != want {
					t.Errorf("the last count before the failure is %d, want %d", n, want)
				}
			})
		}
	}
}

// TestStepErrorOfCompare checks that a failing comparison is reported for the operator that sorts, and
// not for the one before it.
func TestStepErrorOfCompare(t *testing.T) {
	flow := dataflow.New()
	here := dataflow.At[server](flow)
	in, s := dataflow.Input[int](here, "numbers")
	batch := slice.BatchKeyed(slice.At(here), dataflow.KeyBy(s, func(int) int { return 0 }), why)
	keyedstream.SortFunc(batch, func(a, b int) int { return bomb(a) - bomb(b) }, why)
	app := start(t, flow)
	in.SendBatch(t.Context(), []int{1, 0})
	in.Close()
	var e *dataflow.StepError
	if err := app.Wait(); !errors.As(err, &e) || e.Op != "keyedstream.SortFunc" {
		t.Errorf("Wait() = %v", err)
	}
}
