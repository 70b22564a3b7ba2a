package optional_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

var seed = flag.Int64("seed", 0, "seed of the random tests; 0 takes one from the clock")

type (
	here      = dataflow.Here
	inside    = dataflow.Tick[here]
	bounded   = bounds.Bounded
	unbounded = bounds.Unbounded
	maybe     = dataflow.Maybe[int]
)

const why = "tested"

// An operator computes a text from two optionals and the constant -1. It has versions for the
// top level, for a slice and for constants, and one that is a plain function.
type operator struct {
	name     string
	top      func(a, b dataflow.Optional[int, here, unbounded], c dataflow.Singleton[int, here, bounded]) dataflow.Singleton[string, here, unbounded]
	inside   func(a, b dataflow.Optional[int, inside, bounded], c dataflow.Singleton[int, inside, bounded]) dataflow.Singleton[string, inside, bounded]
	constant func(a, b dataflow.Optional[int, here, bounded], c dataflow.Singleton[int, here, bounded]) dataflow.Singleton[string, here, bounded]
	want     func(a, b maybe) any
}

// op returns an operator. Passed as arguments, three instances of one generic function are
// inferred.
func op(name string,
	top func(a, b dataflow.Optional[int, here, unbounded], c dataflow.Singleton[int, here, bounded]) dataflow.Singleton[string, here, unbounded],
	inside func(a, b dataflow.Optional[int, inside, bounded], c dataflow.Singleton[int, inside, bounded]) dataflow.Singleton[string, inside, bounded],
	constant func(a, b dataflow.Optional[int, here, bounded], c dataflow.Singleton[int, here, bounded]) dataflow.Singleton[string, here, bounded],
	want func(a, b maybe) any,
) operator {
	return operator{name, top, inside, constant, want}
}

var operators = []operator{
	op("Map", mapped, mapped, mapped, func(a, _ maybe) any {
		if !a.OK {
			return "none"
		}
		return fmt.Sprint("<", a.Value, ">")
	}),
	op("Filter", filtered, filtered, filtered, func(a, _ maybe) any { return maybe{Value: a.Value, OK: a.OK && a.Value > 4} }),
	op("FilterMap", filterMapped, filterMapped, filterMapped, func(a, _ maybe) any { return maybe{Value: 10 * a.Value, OK: a.OK && a.Value < 6} }),
	op("Or", either, either, either, func(a, b maybe) any {
		if a.OK {
			return a
		}
		return b
	}),
	op("UnwrapOr", unwrapped, unwrapped, unwrapped, func(a, _ maybe) any {
		if a.OK {
			return a
		}
		return -1
	}),
	op("IsSome", isSome, isSome, isSome, func(a, _ maybe) any { return a.OK }),
	op("IsNone", isNone, isNone, isNone, func(a, _ maybe) any { return !a.OK }),
}

// settled is a bound that any function preserves.
type settled[B bounds.Stream] interface {
	bounds.Stream
	bounds.Altered[B]
}

// whole returns an optional as text.
func whole[T any, L dataflow.Location, B settled[B]](o dataflow.Optional[T, L, B]) dataflow.Singleton[string, L, B] {
	return singleton.Map(optional.IntoSingleton(o), dataflow.Maybe[T].String)
}

func mapped[L dataflow.Location, B settled[B]](a, _ dataflow.Optional[int, L, B], _ dataflow.Singleton[int, L, bounded]) dataflow.Singleton[string, L, B] {
	return whole(optional.Map(a, func(x int) string { return fmt.Sprint("<", x, ">") }))
}

func filtered[L dataflow.Location, B settled[B]](a, _ dataflow.Optional[int, L, B], _ dataflow.Singleton[int, L, bounded]) dataflow.Singleton[string, L, B] {
	return whole(optional.Filter(a, func(x int) bool { return x > 4 }))
}

func filterMapped[L dataflow.Location, B settled[B]](a, _ dataflow.Optional[int, L, B], _ dataflow.Singleton[int, L, bounded]) dataflow.Singleton[string, L, B] {
	return whole(optional.FilterMap(a, func(x int) (int, bool) { return 10 * x, x < 6 }))
}

func either[L dataflow.Location, B settled[B]](a, b dataflow.Optional[int, L, B], _ dataflow.Singleton[int, L, bounded]) dataflow.Singleton[string, L, B] {
	return whole(optional.Or(a, b))
}

func unwrapped[L dataflow.Location, B settled[B]](a, _ dataflow.Optional[int, L, B], c dataflow.Singleton[int, L, bounded]) dataflow.Singleton[string, L, B] {
	return singleton.Map(optional.UnwrapOr(a, c), func(x int) string { return fmt.Sprint(x) })
}

func isSome[L dataflow.Location, B settled[B]](a, _ dataflow.Optional[int, L, B], _ dataflow.Singleton[int, L, bounded]) dataflow.Singleton[string, L, B] {
	return singleton.Map(optional.IsSome(a), func(is bool) string { return fmt.Sprint(is) })
}

func isNone[L dataflow.Location, B settled[B]](a, _ dataflow.Optional[int, L, B], _ dataflow.Singleton[int, L, bounded]) dataflow.Singleton[string, L, B] {
	return singleton.Map(optional.IsNone(a), func(is bool) string { return fmt.Sprint(is) })
}

// last returns the last element, while it is a multiple of n.
func last[L dataflow.Location, B settled[B]](s dataflow.Stream[int, L, B, dataflow.TotalOrder, dataflow.ExactlyOnce], n int) dataflow.Optional[int, L, B] {
	return optional.Filter(dataflow.Reduce(s, func(last *int, x int) { *last = x }), func(x int) bool { return x%n == 0 })
}

// lastOf is last for a plain slice.
func lastOf(xs []int, n int) maybe {
	if len(xs) == 0 || xs[len(xs)-1]%n != 0 {
		return maybe{}
	}
	return maybe{Value: xs[len(xs)-1], OK: true}
}

// TestAgainstFunction compares each operator with a plain function of the last element: after
// each step at the top level, on constants, and in each run of a slice, where it is applied to
// snapshots and to the batch of the run.
func TestAgainstFunction(t *testing.T) {
	s := *seed
	if s == 0 {
		s = time.Now().UnixNano()
	}
	for _, op := range operators {
		t.Run(op.name, func(t *testing.T) {
			params := gopter.DefaultTestParametersWithSeed(s)
			params.MinSuccessfulTests, params.MaxSize = 40, 40
			props := gopter.NewProperties(params)
			props.Property(op.name, prop.ForAll(func(xs, sizes []int) *gopter.PropResult { return compare(op, xs, sizes) },
				gen.SliceOf(gen.IntRange(0, 9)), gen.SliceOf(gen.IntRange(0, 4))))
			var report bytes.Buffer
			if !props.Run(gopter.NewFormatedReporter(false, 100, &report)) {
				t.Errorf("%s\nrerun: go test ./optional -run '^TestAgainstFunction$' -seed %d", &report, s)
			}
		})
	}
}

func compare(op operator, xs, sizes []int) *gopter.PropResult {
	flow := dataflow.New()
	at := dataflow.At[here](flow)
	in, s := dataflow.Input[int](at, "numbers")
	var tops, runs, fresh, constant, wantTops, wantRuns, wantFresh []string
	note := func(to *[]string) func(string) { return func(w string) { *to = append(*to, w) } }

	a, b := last(s, 2), last(s, 3)
	value := singleton.Output(op.top(a, b, singleton.Of(at, -1)), "value")

	tick := slice.At(at)
	batch := slice.Batch(tick, s, why)
	shots := op.inside(slice.SnapshotOptional(tick, a, why), slice.SnapshotOptional(tick, b, why), singleton.Of(tick, -1))
	dataflow.ForEach(slice.Emit(singleton.IntoStream(shots)), note(&runs))
	own := op.inside(last(batch, 2), last(batch, 3), singleton.Of(tick, -1))
	dataflow.ForEach(slice.Emit(singleton.IntoStream(own)), note(&fresh))

	all := dataflow.Of(at, xs...)
	dataflow.ForEach(singleton.IntoStream(op.constant(last(all, 2), last(all, 3), singleton.Of(at, -1))), note(&constant))

	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		panic(err)
	}
	want := func(xs []int) string { return fmt.Sprint(op.want(lastOf(xs, 2), lastOf(xs, 3))) }
	look := func(sofar []int) {
		w, ok := value.Latest()
		tops, wantTops = append(tops, fmt.Sprint(w, ok)), append(wantTops, fmt.Sprint(want(sofar), true))
	}
	look(nil)
	for sofar, left := 0, xs; len(left) > 0 || len(sizes) > 0; {
		n := len(left)
		if len(sizes) > 0 {
			n, sizes = min(n, sizes[0]), sizes[1:]
		}
		if _, err := in.SendBatch(context.Background(), left[:n]); err != nil {
			panic(err)
		}
		sofar += n
		look(xs[:sofar])
		if n > 0 { // else the slice does not run
			wantRuns, wantFresh = append(wantRuns, want(xs[:sofar])), append(wantFresh, want(left[:n]))
		}
		left = left[n:]
	}
	in.Close()
	if err := app.Wait(); err != nil {
		panic(err)
	}
	for _, c := range []struct {
		where     string
		got, want []string
	}{{"top", tops, wantTops}, {"snapshots", runs, wantRuns}, {"run", fresh, wantFresh}, {"constant", constant, []string{want(xs)}}} {
		if !slices.Equal(c.got, c.want) {
			return gopter.NewPropResult(false, fmt.Sprintf("%s: got %.200q, want %.200q", c.where, c.got, c.want))
		}
	}
	return gopter.NewPropResult(true, "")
}

// TestZip checks, in each run of a slice, that a pair exists exactly when both values exist.
func TestZip(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[here](flow)
	in, s := dataflow.Input[int](at, "numbers")
	tick := slice.At(at)
	batch := slice.Batch(tick, s, why)
	smallest := dataflow.Min(batch)
	large := slice.SnapshotOptional(tick, optional.Filter(dataflow.Reduce(s, func(last *int, x int) { *last = x }), func(x int) bool { return x > 5 }), why)
	var got []string
	both := optional.IntoSingleton(optional.Zip(smallest, large))
	dataflow.ForEach(slice.Emit(singleton.IntoStream(both)), func(m dataflow.Maybe[dataflow.Pair[int, int]]) { got = append(got, m.String()) })
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]int{{1, 7}, {2}, {8, 9}} {
		in.SendBatch(t.Context(), b)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "(1, 7); none; (8, 9)"; strings.Join(got, "; ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestLatest checks that the result of LatestOptional is absent before its slice has run,
// and present from then on.
func TestLatest(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[here](flow)
	early, ones := dataflow.Input[int](at, "early")
	in, twos := dataflow.Input[int](at, "in")
	sum := slice.LatestOptional(optional.Map(dataflow.Min(slice.Batch(slice.At(at), twos, why)), func(x int) int { return 10 * x }))
	tick := slice.At(at)
	looks := slice.Passive(slice.SnapshotOptional(tick, sum, why))
	seen := dataflow.CrossSingleton(slice.Batch(tick, ones, why), optional.IntoSingleton(looks))
	var got []string
	dataflow.ForEach(slice.Emit(seen), func(p dataflow.Pair[int, maybe]) { got = append(got, p.Second.String()) })
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	early.Send(t.Context(), 1)
	in.Send(t.Context(), 2)
	early.SendBatch(t.Context(), []int{2, 3})
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if want := "none 20 20"; strings.Join(got, " ") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
