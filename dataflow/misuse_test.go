package dataflow_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type (
	inside  = dataflow.Tick[server]
	numbers = dataflow.Stream[int, server, unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
)

const why = "tested"

// TestMisuse checks the mistakes that the compiler cannot refuse. Each program panics while it is
// built, with a message that says what to do.
func TestMisuse(t *testing.T) {
	ident := func(x int) int { return x }
	add := func(acc *int, x int) { *acc += x }
	zero := func() int { return 0 }
	input := func(at server) numbers { _, s := dataflow.Input[int](at, "numbers"); return s }
	tests := []struct {
		name string
		prog func(flow *dataflow.Flow, at server)
		want string
	}{{
		"empty reason",
		func(_ *dataflow.Flow, at server) { slice.Batch(slice.At(at), input(at), "") },
		"slice: Batch: what depends on timing needs a reason: say why the result does not, or why it may",
	}, {
		"blank reason",
		func(_ *dataflow.Flow, at server) { dataflow.AssumeOrder(input(at), " \t") },
		"dataflow: AssumeOrder: what depends on timing needs a reason: say why the result does not, or why it may",
	}, {
		"two slices",
		func(_ *dataflow.Flow, at server) {
			s := input(at)
			a, b := slice.Batch(slice.At(at), s, why), slice.Batch(slice.At(at), s, why)
			dataflow.Merge(a, b)
		},
		"dataflow: Merge: the collections are in the slice made at F:N and the slice made at F:N: a slice reads only what was let into it, and lets out only what it emits",
	}, {
		"state of another slice",
		func(_ *dataflow.Flow, at server) {
			one, two := slice.At(at), slice.At(at)
			_, keep := slice.State(one, 0)
			keep(dataflow.Count(slice.Batch(two, input(at), why)))
		},
		"slice: State: the collections are in the slice made at F:N and the slice made at F:N: a slice reads only what was let into it, and lets out only what it emits",
	}, {
		"two flows",
		func(_ *dataflow.Flow, at server) {
			dataflow.Merge(input(at), input(dataflow.At[server](dataflow.New())))
		},
		"dataflow: Merge: the collections live at different locations, server and server",
	}, {
		"slice of another flow",
		func(_ *dataflow.Flow, at server) {
			slice.Batch(slice.At(dataflow.At[server](dataflow.New())), input(at), why)
		},
		"slice: Batch: the slice is at server and the collection at server",
	}, {
		"slice without input",
		func(flow *dataflow.Flow, at server) {
			tick := slice.At(at)
			dataflow.Count(dataflow.Of(tick, 1, 2))
			dataflow.Run(context.Background(), flow)
		},
		"slice: At: the slice made at F:N has no input: nothing would ever run it",
	}, {
		"slice of a constant only",
		func(flow *dataflow.Flow, at server) {
			slice.Snapshot(slice.At(at), dataflow.Count(dataflow.Of(at, 1, 2)), why)
			dataflow.Run(context.Background(), flow)
		},
		"slice: At: the slice made at F:N has no input: nothing would ever run it",
	}, {
		"feedback of a slice into itself",
		func(_ *dataflow.Flow, at server) {
			tick := slice.At(at)
			sum := dataflow.Fold(slice.Emit(slice.Batch(tick, input(at), why)), zero, add)
			slice.Snapshot(tick, sum, why)
		},
		"slice: Snapshot: the collection is made from what the slice itself emits: the slice made at F:N; feedback has to pass through slice.State, an input or another location",
	}, {
		"feedback through another slice",
		func(_ *dataflow.Flow, at server) {
			one, two := slice.At(at), slice.At(at)
			out := slice.Emit(slice.Batch(two, slice.Emit(slice.Batch(one, input(at), why)), why))
			slice.Batch(one, dataflow.Map(out, ident), why)
		},
		"slice: Batch: the collection is made from what the slice itself emits: the slice made at F:N ← the slice made at F:N; feedback has to pass through slice.State, an input or another location",
	}, {
		"entries that are not fresh",
		func(_ *dataflow.Flow, at server) {
			batch := slice.Batch(slice.At(at), input(at), why)
			slice.EmitEntries(keyedstream.First(dataflow.KeyBy(batch, ident)))
		},
		"slice: EmitEntries: the keys do not come from a BatchEntries of this slice, so a key could be emitted twice; emit keyedsingleton.IntoKeyedStream of it and take keyedstream.First outside",
	}, {
		"entries of a snapshot",
		func(_ *dataflow.Flow, at server) {
			count := keyedstream.Count(dataflow.KeyBy(input(at), ident))
			slice.EmitEntries(slice.SnapshotEntries(slice.At(at), count, why))
		},
		"slice: EmitEntries: the keys do not come from a BatchEntries of this slice, so a key could be emitted twice; emit keyedsingleton.IntoKeyedStream of it and take keyedstream.First outside",
	}, {
		"zero location",
		func(*dataflow.Flow, server) { dataflow.Of(server{}, 1) },
		"dataflow: Of: the location is a zero value: make it with dataflow.At",
	}, {
		"zero location of a slice",
		func(*dataflow.Flow, server) { slice.At(server{}) },
		"slice: At: the location is a zero value: make it with dataflow.At",
	}, {
		"zero slice",
		func(_ *dataflow.Flow, at server) { slice.Batch(inside{}, input(at), why) },
		"slice: Batch: the location is a zero value: make it with dataflow.At",
	}, {
		"zero stream",
		func(*dataflow.Flow, server) { dataflow.Map(numbers{}, ident) },
		"dataflow: Map: the collection is a zero value: collections come from operators and inputs",
	}, {
		"zero keyed singleton",
		func(*dataflow.Flow, server) {
			keyedsingleton.KeyCount(dataflow.KeyedSingleton[int, int, server, bounded]{})
		},
		"keyedsingleton: KeyCount: the collection is a zero value: collections come from operators and inputs",
	}, {
		"zero singleton",
		func(*dataflow.Flow, server) {
			singleton.Map(dataflow.Singleton[int, server, bounded]{}, ident)
		},
		"singleton: Map: the collection is a zero value: collections come from operators and inputs",
	}, {
		"zero stream that is named",
		func(*dataflow.Flow, server) { dataflow.Named("it", numbers{}) },
		"dataflow: Named: the collection is a zero value: collections come from operators and inputs",
	}, {
		"zero keyed singleton that is passive",
		func(_ *dataflow.Flow, at server) {
			slice.Passive(dataflow.KeyedSingleton[int, int, dataflow.Tick[server], bounded]{})
		},
		"slice: Passive: the collection is a zero value: collections come from operators and inputs",
	}, {
		"operator after Start",
		func(flow *dataflow.Flow, at server) {
			s := input(at)
			app, _ := dataflow.Start(context.Background(), flow)
			defer app.Stop(context.Background())
			dataflow.Map(s, ident)
		},
		"dataflow: Map: the flow has been started, nothing can be added to it",
	}, {
		"slice after Start",
		func(flow *dataflow.Flow, at server) {
			dataflow.Run(context.Background(), flow)
			slice.At(at)
		},
		"slice: At: the flow has been started, nothing can be added to it",
	}, {
		"location after Start",
		func(flow *dataflow.Flow, _ server) {
			dataflow.Run(context.Background(), flow)
			dataflow.At[client](flow)
		},
		"dataflow: At: the flow has been started, nothing can be added to it",
	}, {
		"state kept twice",
		func(_ *dataflow.Flow, at server) {
			tick := slice.At(at)
			last, keep := slice.State(tick, 0)
			keep(last)
			keep(last)
		},
		"slice: State: the next value was given before",
	}, {
		"input in a slice",
		func(_ *dataflow.Flow, at server) { dataflow.Input[int](slice.At(at), "numbers") },
		"dataflow: Input: an input comes from outside and cannot be inside the slice made at F:N",
	}, {
		"keyed input in a slice",
		func(_ *dataflow.Flow, at server) { keyedstream.Input[int, int](slice.At(at), "numbers") },
		"keyedstream: Input: an input comes from outside and cannot be inside the slice made at F:N",
	}, {
		"entry input in a slice",
		func(_ *dataflow.Flow, at server) { keyedsingleton.Input[int, int](slice.At(at), "numbers") },
		"keyedsingleton: Input: an input comes from outside and cannot be inside the slice made at F:N",
	}, {
		"output in a slice",
		func(_ *dataflow.Flow, at server) {
			dataflow.Output(slice.Batch(slice.At(at), input(at), why), "numbers")
		},
		"dataflow: Output numbers: the collection is inside the slice made at F:N: emit it first",
	}, {
		"keyed output in a slice",
		func(_ *dataflow.Flow, at server) {
			_, ks := keyedstream.Input[int, int](at, "numbers")
			keyedstream.Output(slice.BatchKeyed(slice.At(at), ks, why), "numbers")
		},
		"keyedstream: Output numbers: the collection is inside the slice made at F:N: emit it first",
	}, {
		"entry output in a slice",
		func(_ *dataflow.Flow, at server) {
			_, ks := keyedsingleton.Input[int, int](at, "numbers")
			keyedsingleton.Output(slice.BatchEntries(slice.At(at), ks, why), "numbers")
		},
		"keyedsingleton: Output numbers: the collection is inside the slice made at F:N: emit it first",
	}, {
		"slice in a slice",
		func(_ *dataflow.Flow, at server) { slice.At(slice.At(at)) },
		"slice: At: the slice made at F:N is a slice already, and slices do not nest",
	}, {
		"timer in a slice",
		func(_ *dataflow.Flow, at server) {
			_, ks := keyedsingleton.Input[int, int](at, "numbers")
			keyedsingleton.After(slice.BatchEntries(slice.At(at), ks, why), time.Second, why)
		},
		"keyedsingleton: After: nothing changes later inside the slice made at F:N",
	}, {
		"call in a slice",
		func(_ *dataflow.Flow, at server) {
			_, ks := keyedsingleton.Input[int, int](at, "numbers")
			keyedsingleton.MapAsync(slice.BatchEntries(slice.At(at), ks, why), func(context.Context, int) int { return 0 }, keyedsingleton.AsyncOptions{})
		},
		"keyedsingleton: MapAsync: nothing changes later inside the slice made at F:N",
	}, {
		"negative concurrency",
		func(_ *dataflow.Flow, at server) {
			_, ks := keyedsingleton.Input[int, int](at, "numbers")
			keyedsingleton.MapAsync(ks, func(context.Context, int) int { return 0 }, keyedsingleton.AsyncOptions{Concurrency: -1})
		},
		"keyedsingleton: MapAsync: Concurrency is -1",
	}, {
		"negative timeout",
		func(_ *dataflow.Flow, at server) {
			_, ks := keyedsingleton.Input[int, int](at, "numbers")
			keyedsingleton.MapAsyncWithKey(ks, func(context.Context, int, int) int { return 0 }, keyedsingleton.AsyncOptions{Timeout: -1})
		},
		"keyedsingleton: MapAsyncWithKey: Timeout is -1ns",
	}, {
		"negative attempts",
		func(_ *dataflow.Flow, at server) {
			_, ks := keyedsingleton.Input[int, int](at, "numbers")
			try := func(context.Context, int, int) (int, error) { return 0, nil }
			keyedsingleton.TryAsync(ks, try, keyedsingleton.AsyncOptions{}, keyedsingleton.Backoff{Attempts: -1})
		},
		"keyedsingleton: TryAsync: {Attempts:-1 First:0s Most:0s}: nothing of it may be negative",
	}, {
		"negative size",
		func(*dataflow.Flow, server) { dataflow.NewWithOptions(dataflow.Options{Queue: -1}) },
		"dataflow: NewWithOptions: Queue is -1 and Buffer is 0: sizes must not be negative",
	}}
	place := regexp.MustCompile(`[a-z_]+\.go:\d+`)
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := "no panic"
			func() {
				defer func() {
					if v := recover(); v != nil {
						got = fmt.Sprint(v)
					}
				}()
				flow := dataflow.New()
				test.prog(flow, dataflow.At[server](flow))
			}()
			if got := place.ReplaceAllString(got, "F:N"); got != test.want {
				t.Errorf("got  %s\nwant %s", got, test.want)
			}
		})
	}
}

type client struct{ dataflow.Process }

// TestMisuseNamesTheCall checks that a message names the line of the user's code.
func TestMisuseNamesTheCall(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !regexp.MustCompile(`slice made at misuse_test.go:\d+ is a slice`).MatchString(got) {
			t.Error(got)
		}
	}()
	slice.At(slice.At(dataflow.At[server](dataflow.New())))
}
