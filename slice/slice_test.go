package slice_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
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

func first(s string) string { return s[:1] }

// each calls f with the value of x in each run of its slice.
func each[T any](x dataflow.Singleton[T, dataflow.Tick[server], bounds.Bounded], f func(T)) {
	dataflow.ForEach(singleton.IntoStream(x), f)
}

// list returns the elements of a batch as one value in each run, even if the batch is empty.
func list[T any, O dataflow.Order](s dataflow.Stream[T, dataflow.Tick[server], bounds.Bounded, O, dataflow.ExactlyOnce]) dataflow.Singleton[[]T, dataflow.Tick[server], bounds.Bounded] {
	return dataflow.Fold(dataflow.AssumeOrder(s, why), func() []T { return nil }, func(acc *[]T, x T) { *acc = append(*acc, x) })
}

// contents returns the entries of a keyed singleton in a slice as text, sorted.
func contents[K comparable, V any](ks dataflow.KeyedSingleton[K, V, dataflow.Tick[server], bounds.Bounded]) dataflow.Singleton[string, dataflow.Tick[server], bounds.Bounded] {
	return singleton.Map(list(keyedsingleton.Entries(ks)), func(all []dataflow.Entry[K, V]) string {
		var words []string
		for _, e := range all {
			words = append(words, e.String())
		}
		slices.Sort(words)
		return strings.Join(words, " ")
	})
}

// A step is a word that a script sends, and the runs of the slice that it must cause,
// separated by "; ".
type step struct{ send, want string }

// script builds a slice over a stream of words, sends words one by one, and compares the
// arguments of note after each of them.
func script(t *testing.T, build func(at server, words dataflow.Stream[string, server, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce], note func(any)), atStart string, steps ...step) {
	t.Helper()
	flow := dataflow.New()
	in, words := dataflow.Input[string](dataflow.At[server](flow), "words")
	var notes []string
	build(dataflow.At[server](flow), words, func(x any) { notes = append(notes, fmt.Sprint(x)) })
	check := func(after, want string) {
		t.Helper()
		if got := strings.Join(notes, "; "); got != want {
			t.Errorf("%s: got %q, want %q", after, got, want)
		}
		notes = nil
	}
	start(t, flow)
	check("start", atStart)
	for _, s := range steps {
		// The location is idle, so Send runs it.
		if err := in.Send(t.Context(), s.send); err != nil {
			t.Fatal(err)
		}
		check(s.send, s.want)
	}
}

type words = dataflow.Stream[string, server, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

// TestNoNews checks that a slice runs only if one of its inputs has something new. The
// initial value of a fold is new once, a constant never.
func TestNoNews(t *testing.T) {
	long := func(s string) bool { return len(s) > 2 }
	t.Run("batch", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			each(list(slice.Batch(slice.At(at), dataflow.Filter(w, long), why)), func(x []string) { note(x) })
		}, "", step{"ab", ""}, step{"abc", "[abc]"}, step{"a", ""}, step{"bcd", "[bcd]"})
	})
	t.Run("entries", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			each(contents(slice.BatchEntries(slice.At(at), keyedstream.First(dataflow.KeyBy(w, first)), why)), func(x string) { note(x) })
		}, "", step{"ab", "a:ab"}, step{"abc", ""}, step{"b", "b:b"}, step{"ab", ""})
	})
	t.Run("snapshot", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			each(slice.Snapshot(slice.At(at), dataflow.Count(dataflow.Filter(w, long)), why), func(n int) { note(n) })
		}, "0", step{"ab", ""}, step{"abc", "1"}, step{"abc", "2"})
	})
	t.Run("number of keys", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			each(slice.Snapshot(slice.At(at), keyedsingleton.KeyCount(keyedstream.Count(dataflow.KeyBy(w, first))), why), func(n int) { note(n) })
		}, "0", step{"ab", "1"}, step{"abc", ""}, step{"b", "2"})
	})
	t.Run("view", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			often := keyedsingleton.Filter(keyedstream.Count(dataflow.KeyBy(w, first)), func(n int) bool { return n == 2 })
			each(slice.Snapshot(slice.At(at), keyedsingleton.IntoSingleton(often), why), func(v dataflow.View[string, int]) { note(v) })
		}, "{}", step{"a", ""}, step{"a", "{a:2}"}, step{"b", ""}, step{"a", "{}"}, step{"a", ""})
	})
	t.Run("constant", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			tick := slice.At(at)
			rate := slice.Snapshot(tick, dataflow.Count(dataflow.Of(at, 1, 2, 3)), why)
			each(singleton.Zip(list(slice.Batch(tick, w, why)), rate), func(p dataflow.Pair[[]string, int]) { note(p) })
		}, "", step{"a", "([a], 3)"}, step{"b", "([b], 3)"})
	})
}

// TestStateful checks that stateful operators start afresh in every run, and state does not.
func TestStateful(t *testing.T) {
	batch := func(at server, w words) dataflow.KeyedStream[string, string, dataflow.Tick[server], bounds.Bounded, dataflow.TotalOrder, dataflow.ExactlyOnce] {
		return slice.BatchKeyed(slice.At(at), dataflow.KeyBy(dataflow.FlatMap(w, func(s string, emit func(string)) {
			for _, x := range strings.Split(s, ",") {
				emit(x)
			}
		}), first), why)
	}
	t.Run("first", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			each(contents(keyedstream.First(batch(at, w))), func(x string) { note(x) })
		}, "", step{"a1,a2,b1", "a:a1 b:b1"}, step{"a3", "a:a3"}, step{"b2,a4", "a:a4 b:b2"})
	})
	t.Run("count", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			each(contents(keyedstream.Count(batch(at, w))), func(x string) { note(x) })
		}, "", step{"a1,a2,b1", "a:2 b:1"}, step{"a3", "a:1"})
	})
	t.Run("early stop", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			two := func(acc *string, s string) bool { *acc += s; return len(*acc) == 4 }
			each(contents(keyedstream.FoldEarlyStop(batch(at, w), func() string { return "" }, two)), func(x string) { note(x) })
		}, "", step{"a1,a2,b1,a3", "a:a1a2"}, step{"b2,a4", ""}, step{"b3,b4", "b:b3b4"})
	})
	t.Run("scan", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			numbered := keyedstream.Scan(batch(at, w), func() int { return 0 }, func(n *int, s string, emit func(string)) { *n++; emit(fmt.Sprint(*n, s)) })
			each(list(keyedstream.Values(numbered)), func(x []string) { note(x) })
		}, "", step{"a1,a2,b1", "[1a1 2a2 1b1]"}, step{"a3", "[1a3]"})
	})
	t.Run("number and view", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			once := keyedstream.First(batch(at, w))
			each(singleton.Zip(keyedsingleton.KeyCount(once), keyedsingleton.IntoSingleton(once)), func(p dataflow.Pair[int, dataflow.View[string, string]]) { note(p) })
		}, "", step{"b1,a1", "(2, {a:a1 b:b1})"}, step{"c1", "(1, {c:c1})"})
	})
	t.Run("constant inside", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			tick := slice.At(at)
			own := dataflow.Merge(dataflow.Of(tick, "x", "y"), slice.Batch(tick, w, why))
			each(dataflow.Count(own), func(n int) { note(n) })
		}, "", step{"a", "3"}, step{"b", "3"})
	})
	t.Run("state", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			tick := slice.At(at)
			seen, keep := slice.State(tick, 100)
			next := singleton.Map(singleton.Zip(seen, dataflow.Count(slice.Batch(tick, w, why))), func(p dataflow.Pair[int, int]) int { return p.First + p.Second })
			keep(next)
			forgotten, _ := slice.State(tick, "kept by nobody")
			each(singleton.Zip(singleton.Zip(seen, next), forgotten), func(p dataflow.Pair[dataflow.Pair[int, int], string]) { note(p) })
		}, "", step{"a", "((100, 101), kept by nobody)"}, step{"b", "((101, 102), kept by nobody)"})
	})
}

// TestJoins checks joins and lookups of a batch with a snapshot of the same cut.
func TestJoins(t *testing.T) {
	script(t, func(at server, w words, note func(any)) {
		tick := slice.At(at)
		by := dataflow.KeyBy(w, first)
		counts := slice.SnapshotEntries(tick, keyedstream.Count(by), why)
		// The count includes the element itself, because both are of one cut.
		joined := keyedsingleton.JoinKeyedStream(counts, slice.BatchKeyed(tick, by, why))
		each(list(keyedstream.Values(joined)), func(x []dataflow.Pair[int, string]) { note(x) })
	}, "", step{"a", "[(1, a)]"}, step{"a!", "[(2, a!)]"}, step{"b", "[(1, b)]"})
	script(t, func(at server, w words, note func(any)) {
		tick := slice.At(at)
		by := dataflow.KeyBy(w, first)
		fresh := slice.BatchEntries(tick, keyedstream.First(by), why)
		often := keyedsingleton.Filter(keyedstream.Count(dataflow.KeyBy(w, func(s string) string { return s[1:2] })), func(n int) bool { return n > 1 })
		many := slice.SnapshotEntries(tick, often, why)
		looked := keyedsingleton.LookupKeyedSingleton(keyedsingleton.Map(fresh, func(s string) string { return s[1:2] }), many)
		each(singleton.Zip(contents(keyedsingleton.JoinKeyedSingleton(fresh, many)), contents(looked)), func(p dataflow.Pair[string, string]) {
			if p.First+p.Second != "" { // skip runs that only a count triggers
				note(p)
			}
		})
	}, "", step{"ab", "(, a:(b, none))"}, step{"bb", "(b:(bb, 2), b:(b, 2))"}, step{"ca", "(, c:(a, none))"}, step{"cb", ""})
}

// TestOrderOfConstruction makes slices in the wrong order and checks that they run in the
// order in which one feeds the next.
func TestOrderOfConstruction(t *testing.T) {
	script(t, func(at server, w words, note func(any)) {
		third, second, one := slice.At(at), slice.At(at), slice.At(at)
		a := slice.Emit(slice.Batch(one, w, why))
		b := slice.Emit(dataflow.Map(slice.Batch(second, a, why), strings.ToUpper))
		both := dataflow.Merge(dataflow.AssumeRepeats(slice.Batch(third, b, why)), dataflow.AssumeRepeats(slice.Batch(third, a, why)))
		each(list(dataflow.AssumeOnce(both, why)), func(x []string) { note(x) })
	}, "", step{"x", "[X x]"}, step{"y", "[Y y]"})
}

// TestOneCutUnderLoad checks with many senders that the batches and snapshots of a run are of
// one cut, and that no key is in two batches.
func TestOneCutUnderLoad(t *testing.T) {
	for range 10 {
		flow := dataflow.NewWithOptions(dataflow.Options{Queue: 8})
		at := dataflow.At[server](flow)
		in, shared := dataflow.SharedInput[int](at, "numbers")
		keyed, sharedPerKey := keyedstream.SharedInput[int, int](at, "per key")
		numbers, perKey := dataflow.AssumeOrder(shared, why), keyedstream.AssumeOrder(sharedPerKey, why)
		tick := slice.At(at)
		count := slice.Snapshot(tick, dataflow.Count(numbers), why)
		sum := slice.Snapshot(tick, dataflow.Fold(numbers, func() int { return 0 }, func(acc *int, x int) { *acc += x }), why)
		batch := list(slice.Batch(tick, numbers, why))
		fresh := list(keyedsingleton.Keys(slice.BatchEntries(tick, keyedstream.First(perKey), why)))
		counts := contents(slice.SnapshotEntries(tick, keyedstream.Count(perKey), why))
		keys := slice.Snapshot(tick, keyedsingleton.KeyCount(keyedstream.Count(perKey)), why)

		var seen, total int
		all := make(map[int]bool)
		each(singleton.Zip(singleton.Zip(batch, fresh), singleton.Zip(singleton.Zip(count, sum), singleton.Zip(counts, keys))), func(p dataflow.Pair[dataflow.Pair[[]int, []int], dataflow.Pair[dataflow.Pair[int, int], dataflow.Pair[string, int]]]) {
			for _, x := range p.First.First {
				seen++
				total += x
			}
			for _, k := range p.First.Second {
				if all[k] {
					t.Errorf("key %d is in two batches", k)
				}
				all[k] = true
			}
			if got := p.Second.First; got.First != seen || got.Second != total {
				t.Errorf("batches up to this cut have %d elements and sum %d, the snapshots say %v", seen, total, got)
			}
			if got := p.Second.Second; got.Second != len(all) || len(strings.Fields(got.First)) != len(all) {
				t.Errorf("%d keys came in batches, the snapshots say %v", len(all), got)
			}
		})
		app := start(t, flow)
		var wg sync.WaitGroup
		for s := range 8 {
			wg.Go(func() {
				for n := range 60 {
					if err := in.Send(t.Context(), n); err != nil {
						t.Error(err)
					}
					if err := keyed.Send(t.Context(), (s+n)%50, n); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		if seen != 480 || len(all) != 50 {
			t.Errorf("batches had %d elements and %d keys", seen, len(all))
		}
	}
}

// TestEmitKeepsOrder checks that emitted elements keep the order of the runs, and that a slice
// emits one entry for each key.
func TestEmitKeepsOrder(t *testing.T) {
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 3, Buffer: 2})
	at := dataflow.At[server](flow)
	in, requests := keyedsingleton.Input[int, int](at, "requests")
	numbers, s := dataflow.Input[int](at, "numbers")
	tick := slice.At(at)
	answers := keyedsingleton.Output(slice.EmitEntries(keyedsingleton.Map(slice.BatchEntries(tick, requests, why), func(x int) int { return -x })), "answers")
	out := dataflow.Output(slice.Emit(slice.Batch(tick, s, why)), "out")
	app := start(t, flow)
	var wg sync.WaitGroup
	for c := range 4 {
		wg.Go(func() {
			for n := range 100 {
				k := c*100 + n
				in.Put(t.Context(), k, k)
				if v, err := answers.Await(t.Context(), k); v != -k || err != nil {
					t.Errorf("the answer to %d is %d, %v", k, v, err)
				}
			}
		})
	}
	wg.Go(func() {
		for n := range 200 {
			numbers.Send(t.Context(), n)
		}
	})
	wg.Go(func() {
		for want := range 200 {
			if got, err := out.Next(t.Context()); got != want || err != nil {
				t.Errorf("got %d, %v, want %d", got, err, want)
				return
			}
		}
	})
	wg.Wait()
	app.Stop(t.Context())
	if answers.Len() != 400 {
		t.Errorf("%d answers", answers.Len())
	}
}
