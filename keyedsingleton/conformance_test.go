package keyedsingleton_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type entry = dataflow.Entry[int, int]

// pairs returns entries from alternating keys and values.
func pairs(kv ...int) (es []entry) {
	for i := 0; i < len(kv); i += 2 {
		es = append(es, entry{Key: kv[i], Value: kv[i+1]})
	}
	return es
}

// constantly returns the entries that an operator computes from constants, sorted.
func constantly[K comparable, V any](build func(at dataflow.Here) dataflow.Stream[dataflow.Entry[K, V], dataflow.Here, bounds.Bounded, dataflow.NoOrder, dataflow.ExactlyOnce]) string {
	var got []string
	dataflow.Local(func(at dataflow.Here) {
		out := dataflow.AssumeOrder(build(at), "sorted")
		dataflow.ForEach(out, func(e dataflow.Entry[K, V]) { got = append(got, e.String()) })
	})
	slices.Sort(got)
	return strings.Join(got, " ")
}

func fixed(at dataflow.Here, es ...entry) dataflow.KeyedSingleton[int, int, dataflow.Here, bounds.Bounded] {
	return keyedstream.First(dataflow.Keyed(dataflow.Of(at, es...)))
}

// TestFirstOnce checks that First returns the first value of each key, and nothing after it.
func TestFirstOnce(t *testing.T) {
	flow := dataflow.New()
	in, words := keyedstream.Input[string, int](dataflow.At[server](flow), "words")
	var got []string
	keyedsingleton.InspectWithKey(keyedstream.First(words), func(k string, v int) { got = append(got, fmt.Sprint(k, v)) })
	start(t, flow)
	for i, k := range []string{"a", "a", "b", "a"} {
		in.Send(t.Context(), k, i+1)
	}
	if want := []string{"a1", "b3"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFoldEarlyStop checks that a fold ignores values after it has stopped, and that keys whose
// fold has not stopped have no entry.
func TestFoldEarlyStop(t *testing.T) {
	flow := dataflow.New()
	in, words := keyedstream.Input[string, int](dataflow.At[server](flow), "words")
	sums := keyedstream.FoldEarlyStop(words, func() int { return 0 }, func(acc *int, v int) bool { *acc += v; return *acc >= 5 })
	out := keyedsingleton.Output(sums, "sums")
	start(t, flow)
	for _, v := range []int{2, 4, 7} {
		in.Send(t.Context(), "a", v)
	}
	in.Send(t.Context(), "b", 1)
	if v, _ := out.Get("a"); v != 6 || out.Len() != 1 {
		t.Errorf("a is %d of %d entries, want 6 alone", v, out.Len())
	}
}

// TestPhases checks KeyCount, IntoSingleton and MaxKey at the start and after each input.
func TestPhases(t *testing.T) {
	flow := dataflow.New()
	in, words := keyedstream.Input[int, int](dataflow.At[server](flow), "words")
	counts := keyedstream.Count(words)
	number := singleton.Output(keyedsingleton.KeyCount(counts), "number")
	view := singleton.Output(keyedsingleton.IntoSingleton(counts), "view")
	largest := optional.Output(keyedsingleton.MaxKey(keyedstream.First(words)), "largest")
	start(t, flow)
	check := func(wantNumber int, wantView, wantLargest string) {
		t.Helper()
		n, _ := number.Latest()
		v, _ := view.Latest()
		e, ok := largest.Latest()
		if m := (dataflow.Maybe[entry]{Value: e, OK: ok}); n != wantNumber || v.String() != wantView || m.String() != wantLargest {
			t.Errorf("got %d, %v, %v, want %d, %s, %s", n, v, m, wantNumber, wantView, wantLargest)
		}
	}
	check(0, "{}", "none")
	for _, s := range []struct {
		key     int
		number  int
		view    string
		largest string
	}{
		{1, 1, "{1:1}", "1:10"},
		{1, 1, "{1:2}", "1:10"},
		{0, 2, "{0:1 1:2}", "1:10"},
		{1, 2, "{0:1 1:3}", "1:10"},
		{5, 3, "{0:1 1:3 5:1}", "5:50"},
		{3, 4, "{0:1 1:3 3:1 5:1}", "5:50"},
	} {
		in.Send(t.Context(), s.key, s.key*10)
		check(s.number, s.view, s.largest)
	}
}

// TestViewLeaves reads versions of a whole map in other goroutines while its location runs.
// It is for the race detector. It also checks that each version is consistent: keys arrive
// in order, so no key below the largest may be missing.
func TestViewLeaves(t *testing.T) {
	flow := dataflow.New()
	in, words := keyedstream.Input[int, int](dataflow.At[server](flow), "words")
	out := singleton.Output(keyedsingleton.IntoSingleton(keyedstream.Count(words)), "view")
	start(t, flow)
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for stop := false; !stop; {
				select {
				case <-done:
					stop = true
				default:
				}
				view, _ := out.Latest()
				next := 0
				for k, n := range view.All() {
					if k != next || n < 1 {
						t.Errorf("entry %d:%d where %d was expected", k, n, next)
					}
					next++
				}
				if next != view.Len() {
					t.Errorf("%d entries of %d", next, view.Len())
				}
			}
		})
	}
	for n := range 3000 {
		in.Send(t.Context(), n/2%(1+n/3), n)
	}
	close(done)
	wg.Wait()
}

// TestRelations checks joins, lookups and WithoutKeys on constants.
func TestRelations(t *testing.T) {
	data := func(at dataflow.Here) dataflow.KeyedSingleton[int, int, dataflow.Here, bounds.Bounded] {
		return fixed(at, pairs(1, 10, 2, 20)...)
	}
	for _, c := range []struct{ name, got, want string }{
		{"A12", constantly(func(at dataflow.Here) dataflow.Stream[dataflow.Entry[int, dataflow.Pair[int, int]], dataflow.Here, bounds.Bounded, dataflow.NoOrder, dataflow.ExactlyOnce] {
			requests := dataflow.Keyed(dataflow.Of(at, pairs(1, 100, 2, 200, 3, 300)...))
			return keyedstream.Entries(keyedsingleton.JoinKeyedStream(data(at), requests))
		}), "1:(10, 100) 2:(20, 200)"},
		{"A13", constantly(func(at dataflow.Here) dataflow.Stream[dataflow.Entry[int, dataflow.Pair[int, dataflow.Maybe[int]]], dataflow.Here, bounds.Bounded, dataflow.NoOrder, dataflow.ExactlyOnce] {
			return keyedsingleton.Entries(keyedsingleton.LookupKeyedSingleton(data(at), fixed(at, pairs(10, 100, 11, 110)...)))
		}), "1:(10, 100) 2:(20, none)"},
		{"A14", constantly(func(at dataflow.Here) dataflow.Stream[dataflow.Entry[int, dataflow.Pair[int, dataflow.Maybe[int]]], dataflow.Here, bounds.Bounded, dataflow.NoOrder, dataflow.ExactlyOnce] {
			return keyedstream.Entries(keyedsingleton.LookupKeyedStream(data(at), dataflow.Keyed(dataflow.Of(at, pairs(10, 100, 10, 110)...))))
		}), "1:(10, 100) 1:(10, 110) 2:(20, none)"},
		{"A16", constantly(func(at dataflow.Here) dataflow.Stream[entry, dataflow.Here, bounds.Bounded, dataflow.NoOrder, dataflow.ExactlyOnce] {
			return keyedsingleton.Entries(keyedsingleton.WithoutKeys(fixed(at, pairs(1, 2, 2, 4)...), dataflow.Of(at, 1, 1, 7)))
		}), "2:4"},
	} {
		if c.got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, c.got, c.want)
		}
	}
}

// orders yields every permutation of 0 to n-1.
func orders(n int) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		var place func(p []int) bool
		place = func(p []int) bool {
			if len(p) == n {
				return yield(p)
			}
			for i := range n {
				if !slices.Contains(p, i) && !place(append(p, i)) {
					return false
				}
			}
			return true
		}
		place(make([]int, 0, n))
	}
}

// TestThreshold checks that the result of Threshold does not depend on the order of values
// and thresholds, nor on which of them share a step, and is the same on constants.
func TestThreshold(t *testing.T) {
	for _, c := range []struct {
		name       string
		thresholds []entry
		values     []entry // added up
		want       string
	}{
		{"A18", pairs(1, 5, 2, 10), pairs(1, 3, 1, 3, 2, 3, 2, 3), "1:5"},
		{"A19", pairs(1, 5), pairs(1, 3, 1, 3), "1:5"},
		{"A20", pairs(1, 5), pairs(1, 9), "1:5"},
		{"A21", pairs(1, 5, 2, 5), pairs(1, 3, 1, 3, 2, 2, 2, 2), "1:5"},
		{"A22", pairs(1, 3, 2, 10), pairs(1, 5, 2, 4), "1:3"},
		{"exactly", pairs(1, 5, 2, 0, 3, 1), pairs(1, 5, 2, 0), "1:5 2:0"},
	} {
		all := append(slices.Clone(c.thresholds), c.values...)
		for order := range orders(len(all)) {
			for together := range len(all) + 1 { // how many are sent before the start, and taken in one step
				if got := crossed(t, all, order, len(c.thresholds), together); got != c.want {
					t.Fatalf("%s: in order %v, %d of them before the start: got %q, want %q", c.name, order, together, got, c.want)
				}
			}
		}
		sum := func(at dataflow.Here) dataflow.KeyedSingleton[int, int, dataflow.Here, bounds.Bounded] {
			return keyedstream.Sum(dataflow.Keyed(dataflow.Of(at, c.values...)))
		}
		if got := constantly(func(at dataflow.Here) dataflow.Stream[entry, dataflow.Here, bounds.Bounded, dataflow.NoOrder, dataflow.ExactlyOnce] {
			return keyedsingleton.Entries(keyedsingleton.Threshold(sum(at), fixed(at, c.thresholds...)))
		}); got != c.want {
			t.Errorf("%s on constants: got %q, want %q", c.name, got, c.want)
		}
	}
}

// crossed sends all[i] for each i in order and returns the result of Threshold. The first n
// entries of all are thresholds.
func crossed(t *testing.T, all []entry, order []int, n, together int) string {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	set, thresholds := keyedsingleton.Input[int, int](at, "thresholds")
	add, values := keyedstream.Input[int, int](at, "values")
	grow := func(sum *int, v int) { *sum += v }
	sums := keyedstream.FoldGrowing(values, func() int { return 0 }, grow, "nothing negative is sent")
	var got []string
	keyedsingleton.InspectWithKey(keyedsingleton.Threshold(sums, thresholds), func(k, v int) { got = append(got, fmt.Sprintf("%d:%d", k, v)) })
	for i, x := range order {
		if i == together {
			start(t, flow)
		}
		if e := all[x]; x < n {
			set.Put(t.Context(), e.Key, e.Value)
		} else {
			add.Send(t.Context(), e.Key, e.Value)
		}
	}
	if together == len(order) {
		start(t, flow)
	}
	slices.Sort(got)
	return strings.Join(got, " ")
}

// TestThresholdUniform checks one limit for all keys, over values of each bound that only
// grows. It also checks Threshold with thresholds that are constants.
func TestThresholdUniform(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	in, values := keyedstream.Input[int, int](at, "values")
	limits := keyedstream.First(dataflow.Keyed(dataflow.Of(at, pairs(1, 5, 2, 5)...)))
	got := make(map[string][]string)
	note := func(what string) func(int, int) {
		return func(k, v int) { got[what] = append(got[what], fmt.Sprintf("%d:%d", k, v)) }
	}
	grow := func(sum *int, v int) { *sum += v }
	sums := keyedstream.FoldGrowing(values, func() int { return 0 }, grow, "nothing negative is sent")
	keyedsingleton.InspectWithKey(keyedsingleton.ThresholdUniform(sums, 5), note("sums"))
	keyedsingleton.InspectWithKey(keyedsingleton.Threshold(sums, limits), note("sums beside constants"))
	keyedsingleton.InspectWithKey(keyedsingleton.ThresholdUniform(keyedstream.Max(values), 3), note("largest"))
	keyedsingleton.InspectWithKey(keyedsingleton.ThresholdUniform(keyedstream.First(values), 3), note("first"))
	tick := slice.At(at)
	now := slice.SnapshotEntries(tick, sums, why)
	keyedsingleton.InspectWithKey(keyedsingleton.ThresholdUniform(now, 6), note("in each run"))
	start(t, flow)
	for _, e := range pairs(1, 2, 1, 3, 1, 3, 2, 2, 2, 2, 3, 7) {
		in.Send(t.Context(), e.Key, e.Value)
	}
	want := map[string][]string{
		"sums": {"1:5", "3:5"}, "sums beside constants": {"1:5"}, "largest": {"1:3", "3:3"}, "first": {"3:3"},
		"in each run": {"1:6", "1:6", "1:6", "1:6", "3:6"},
	}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWatermark implements a watermark in a slice: keys below the watermark are dropped, and
// the key at the watermark is kept.
func TestWatermark(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	in, values := keyedstream.Input[int, int](at, "values")
	last := keyedstream.Reduce(values, func(last *int, v int) { *last = v })
	tick := slice.At(at)
	marked := keyedsingleton.CrossSingleton(slice.SnapshotEntries(tick, last, why), slice.Snapshot(tick, singleton.Of(at, 2), why))
	kept := keyedsingleton.FilterMapWithKey(marked, func(k int, p dataflow.Pair[int, int]) (int, bool) { return p.First, k >= p.Second })
	out := singleton.Output(slice.Latest(keyedsingleton.IntoSingleton(kept), dataflow.View[int, int]{}), "kept")
	start(t, flow)
	for _, e := range pairs(1, 1, 2, 1, 3, 1, 1, 9) {
		in.Send(t.Context(), e.Key, e.Value)
	}
	if view, _ := out.Latest(); view.String() != "{2:1 3:1}" {
		t.Errorf("got %v", view)
	}
}

// TestGet looks up keys in a slice, including missing keys, and checks MaxKey of a batch.
func TestGet(t *testing.T) {
	flow := dataflow.New()
	at := dataflow.At[server](flow)
	ask, questions := dataflow.Input[int](at, "questions")
	in, values := keyedstream.Input[int, int](at, "values")
	tick := slice.At(at)
	now := slice.Passive(slice.SnapshotEntries(tick, keyedstream.Sum(values), why))
	asked := dataflow.Fold(slice.Batch(tick, questions, why), func() int { return -1 }, func(last *int, k int) { *last = k })
	answer := optional.Output(slice.LatestOptional(keyedsingleton.Get(now, asked)), "answer")
	fresh := slice.BatchEntries(slice.At(at), keyedstream.First(values), why)
	newest := optional.Output(slice.LatestOptional(keyedsingleton.MaxKey(fresh)), "largest key of the newest batch")
	start(t, flow)
	r := rand.New(rand.NewPCG(1, 2))
	sums := make(map[int]int)
	for range 300 {
		k := r.IntN(40)
		_, known := sums[k]
		sums[k] += k
		in.Send(context.Background(), k, k)
		if e, ok := newest.Latest(); !known && e.Key != k || !ok {
			t.Fatalf("the largest key of the newest batch is %v, %v, want %d", e, ok, k)
		}
		k = r.IntN(40)
		ask.Send(context.Background(), k)
		want, there := sums[k]
		if got, ok := answer.Latest(); got != want || ok != there {
			t.Fatalf("the value of %d is %d, %v, want %d, %v", k, got, ok, want, there)
		}
	}
}
