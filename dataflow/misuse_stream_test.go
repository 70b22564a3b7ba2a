package dataflow_test

import (
	"context"
	"fmt"
	"reflect"
	"regexp"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// TestMisuseOfStreams is [TestMisuse] for cycles, proofs, intervals and operators that read whole
// streams. The refused feedback is case F9, the cycle without a source F10.
func TestMisuseOfStreams(t *testing.T) {
	type unordered = dataflow.Stream[int, server, unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]
	next := func(x int) int { return x + 1 }
	input := func(at server) numbers { _, s := dataflow.Input[int](at, "numbers"); return s }
	cycle := func(at server, name string) (*dataflow.Loop[int, server, dataflow.NoOrder], unordered) {
		return dataflow.Cycle[int, dataflow.NoOrder](at, name)
	}
	tests := []struct {
		name string
		prog func(flow *dataflow.Flow, at server)
		want string
	}{{
		"a cycle fed with itself",
		func(_ *dataflow.Flow, at server) {
			loop, again := cycle(at, "again")
			loop.Complete(dataflow.Map(dataflow.Merge(input(at), again), next))
		},
		"dataflow: Cycle.Complete again: the stream follows the cycle itself, without a step in between: dataflow.Cycle again (F:N); feedback has to pass through a slice, MapAsync or After",
	}, {
		"a cycle fed with itself and with what a slice made of it",
		func(_ *dataflow.Flow, at server) {
			loop, again := cycle(at, "again")
			loop.Complete(dataflow.Merge(again, slice.Emit(slice.Batch(slice.At(at), again, why))))
		},
		"dataflow: Cycle.Complete again: the stream follows the cycle itself, without a step in between: dataflow.Cycle again (F:N); feedback has to pass through a slice, MapAsync or After",
	}, {
		"a cycle fed through keys",
		func(_ *dataflow.Flow, at server) {
			loop, again := cycle(at, "again")
			byItself := keyedstream.First(dataflow.KeyBy(dataflow.AssumeOrder(again, why), next))
			loop.Complete(keyedsingleton.Values(byItself))
		},
		"dataflow: Cycle.Complete again: the stream follows the cycle itself, without a step in between: dataflow.Cycle again (F:N); feedback has to pass through a slice, MapAsync or After",
	}, {
		"a cycle fed through a value",
		func(_ *dataflow.Flow, at server) {
			loop, again := cycle(at, "again")
			loop.Complete(dataflow.WeakenOrder(singleton.Threshold(dataflow.Count(again), 3)))
		},
		"dataflow: Cycle.Complete again: the stream follows the cycle itself, without a step in between: dataflow.Cycle again (F:N); feedback has to pass through a slice, MapAsync or After",
	}, {
		"two cycles fed with each other",
		func(_ *dataflow.Flow, at server) {
			one, again := cycle(at, "one")
			two, other := cycle(at, "two")
			one.Complete(dataflow.Map(other, next))
			two.Complete(dataflow.Map(again, next))
		},
		"dataflow: Cycle.Complete two: the stream follows the cycle itself, without a step in between: dataflow.Cycle one (F:N) ← dataflow.Cycle two (F:N); feedback has to pass through a slice, MapAsync or After",
	}, {
		"completed twice",
		func(_ *dataflow.Flow, at server) {
			loop, _ := cycle(at, "again")
			s := dataflow.WeakenOrder(input(at))
			loop.Complete(s)
			loop.Complete(s)
		},
		"dataflow: Cycle.Complete again: dataflow.Cycle again (F:N) was completed before",
	}, {
		"never completed",
		func(flow *dataflow.Flow, at server) {
			_, again := cycle(at, "again")
			dataflow.Count(again)
			dataflow.Run(context.Background(), flow)
		},
		"dataflow: Cycle again: the cycle made at F:N was never completed: nothing would ever come",
	}, {
		"completed after the start",
		func(flow *dataflow.Flow, at server) {
			loop, _ := cycle(at, "again")
			s := dataflow.WeakenOrder(input(at))
			loop.Complete(s)
			dataflow.Start(context.Background(), flow)
			other, _ := cycle(at, "other")
			other.Complete(s)
		},
		"dataflow: Cycle other: the flow has been started, nothing can be added to it",
	}, {
		"completed from another flow",
		func(_ *dataflow.Flow, at server) {
			loop, _ := cycle(at, "again")
			loop.Complete(dataflow.WeakenOrder(input(dataflow.At[server](dataflow.New()))))
		},
		"dataflow: Cycle.Complete again: the collections live at different locations, server and server",
	}, {
		"cycle in a slice",
		func(_ *dataflow.Flow, at server) { dataflow.Cycle[int, dataflow.TotalOrder](slice.At(at), "again") },
		"dataflow: Cycle: what is fed back comes later and cannot be inside the slice made at F:N: carry it with slice.State",
	}, {
		"empty proof",
		func(_ *dataflow.Flow, at server) {
			dataflow.FoldCommutative(input(at), func() int { return 0 }, func(acc *int, x int) { *acc += x }, " ")
		},
		"dataflow: FoldCommutative: what the compiler cannot see needs a proof: say why the function has the property that is asked for",
	}, {
		"empty proof of growth",
		func(_ *dataflow.Flow, at server) { singleton.MapGrowing(dataflow.Count(input(at)), next, "") },
		"singleton: MapGrowing: what the compiler cannot see needs a proof: say why the function has the property that is asked for",
	}, {
		"unreasoned interval",
		func(_ *dataflow.Flow, at server) { dataflow.Interval(at, time.Second, "") },
		"dataflow: Interval: what depends on timing needs a reason: say why the result does not, or why it may",
	}, {
		"interval without length",
		func(_ *dataflow.Flow, at server) { dataflow.Interval(at, 0, why) },
		"dataflow: Interval: the interval is 0s",
	}, {
		"interval in a slice",
		func(_ *dataflow.Flow, at server) { dataflow.Interval(slice.At(at), time.Second, why) },
		"dataflow: Interval: time passes outside and not in the slice made at F:N",
	}, {
		"negative limit",
		func(_ *dataflow.Flow, at server) { dataflow.Limit(input(at), -1) },
		"dataflow: Limit: the limit is -1",
	}, {
		"merge without a reason",
		func(_ *dataflow.Flow, at server) { dataflow.MergeOrdered(input(at), input(at), "") },
		"dataflow: MergeOrdered: what depends on timing needs a reason: say why the result does not, or why it may",
	}, {
		"chain of two slices",
		func(_ *dataflow.Flow, at server) {
			s := input(at)
			dataflow.Chain(slice.Batch(slice.At(at), s, why), slice.Batch(slice.At(at), s, why))
		},
		"dataflow: Chain: the collections are in the slice made at F:N and the slice made at F:N: a slice reads only what was let into it, and lets out only what it emits",
	}, {
		"value of a slice let out by name",
		func(_ *dataflow.Flow, at server) {
			singleton.Output(dataflow.Count(slice.Batch(slice.At(at), input(at), why)), "count")
		},
		"singleton: Output count: the value is inside the slice made at F:N: emit it first",
	}, {
		"optional of two slices",
		func(_ *dataflow.Flow, at server) {
			s := input(at)
			optional.Or(dataflow.Min(slice.Batch(slice.At(at), s, why)), dataflow.Min(slice.Batch(slice.At(at), s, why)))
		},
		"optional: Or: the collections are in the slice made at F:N and the slice made at F:N: a slice reads only what was let into it, and lets out only what it emits",
	}, {
		"zero optional",
		func(*dataflow.Flow, server) { optional.IsSome(dataflow.Optional[int, server, unbounded]{}) },
		"optional: IsSome: the collection is a zero value: collections come from operators and inputs",
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

// TestProofs checks that Proofs lists the proofs of a flow, and Reasons the reasons only.
func TestProofs(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	_, s := dataflow.Input[int](at, "numbers")
	count := dataflow.FoldGrowing(s, func() int { return 0 }, func(n *int, _ int) { *n++ }, "a count grows")
	slice.Snapshot(slice.At(at), singleton.MapGrowing(count, func(n int) int { return 2 * n }, "twice keeps order"), why)
	var got [][2]string
	for _, p := range flow.Proofs() {
		got = append(got, [2]string{p.Op, string(p.Why)})
		if !regexp.MustCompile(`^misuse_stream_test\.go:\d+$`).MatchString(p.Pos) {
			t.Errorf("%s is at %s", p.Op, p.Pos)
		}
	}
	want := [][2]string{{"dataflow.FoldGrowing", "a count grows"}, {"singleton.MapGrowing", "twice keeps order"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if rs := flow.Reasons(); len(rs) != 1 || rs[0].Op != "slice.Snapshot" {
		t.Errorf("the reasons are %v", rs)
	}
}
