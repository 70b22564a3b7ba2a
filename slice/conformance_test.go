package slice_test

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// histories yields every order of words that keeps the words of each key in order. Each order
// is cut in every way into pieces that are sent together.
func histories(words ...string) iter.Seq[[][]string] {
	return func(yield func([][]string) bool) {
		seen := make(map[string]bool)
		var place func(done, left []string) bool
		place = func(done, left []string) bool {
			if len(left) > 0 {
				for i, w := range left {
					behind := slices.ContainsFunc(left[:i], func(x string) bool { return first(x) == first(w) })
					if !behind && !place(append(slices.Clip(done), w), slices.Delete(slices.Clone(left), i, i+1)) {
						return false
					}
				}
				return true
			}
			if order := strings.Join(done, " "); seen[order] {
				return true
			} else {
				seen[order] = true
			}
			for cuts := range 1 << (len(done) - 1) {
				var pieces [][]string
				from := 0
				for i := 1; i <= len(done); i++ {
					if i == len(done) || cuts>>(i-1)&1 == 1 {
						pieces = append(pieces, done[from:i])
						from = i
					}
				}
				if !yield(pieces) {
					return false
				}
			}
			return true
		}
		place(nil, words)
	}
}

// outcomes returns the distinct sequences of runs that the histories cause.
func outcomes(t *testing.T, build func(tick dataflow.Tick[server], w words, note func(string)), history iter.Seq[[][]string]) []string {
	all := make(map[string]bool)
	for pieces := range history {
		flow := dataflow.New()
		at := dataflow.At[server](flow)
		in, w := dataflow.Input[string](at, "words")
		var notes []string
		build(slice.At(at), w, func(s string) { notes = append(notes, s) })
		app := start(t, flow)
		for _, p := range pieces {
			if _, err := in.SendBatch(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		app.Stop(t.Context())
		all[strings.Join(notes, "|")] = true
	}
	return slices.Sorted(maps.Keys(all))
}

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q, want\n%q", got, want)
	}
}

// TestEntriesInBatches checks that each key is in exactly one batch, that no batch is empty,
// and that every way to divide keys into batches occurs.
func TestEntriesInBatches(t *testing.T) {
	batches := func(tick dataflow.Tick[server], w words, note func(string)) {
		each(contents(slice.BatchEntries(tick, keyedstream.First(dataflow.KeyBy(w, first)), why)), note)
	}
	want(t, outcomes(t, batches, histories("a1", "a2", "b1")), "a:a1|b:b1", "b:b1|a:a1", "a:a1 b:b1")
	three := outcomes(t, batches, histories("a", "b", "c"))
	if len(three) != 13 {
		t.Errorf("three keys share batches in %d ways, want 13: %q", len(three), three)
	}
	for _, runs := range three {
		seen := strings.FieldsFunc(runs, func(r rune) bool { return r == '|' || r == ' ' })
		if slices.Sort(seen); !slices.Equal(seen, []string{"a:a", "b:b", "c:c"}) || strings.Contains(runs, "||") {
			t.Errorf("runs %q", runs)
		}
	}
}

// TestEntriesBesideOthers checks that a key does not come again in a run that another input
// triggers, and that later values of a key trigger no run.
func TestEntriesBesideOthers(t *testing.T) {
	script(t, func(at server, w words, note func(any)) {
		tick := slice.At(at)
		fresh := slice.BatchEntries(tick, keyedstream.First(dataflow.KeyBy(dataflow.Filter(w, func(s string) bool { return s != "x" }), first)), why)
		other := slice.Batch(tick, dataflow.Filter(w, func(s string) bool { return s == "x" }), why)
		each(singleton.Zip(contents(fresh), dataflow.Count(other)), func(p dataflow.Pair[string, int]) { note(p) })
	}, "", step{"a1", "(a:a1, 0)"}, step{"x", "(, 1)"}, step{"b1", "(b:b1, 0)"}, step{"a2", ""}, step{"x", "(, 1)"})
}

// TestCountsInSnapshots checks that the sequences of snapshots of a count per key are exactly
// those that some sequence of cuts explains.
func TestCountsInSnapshots(t *testing.T) {
	got := outcomes(t, func(tick dataflow.Tick[server], w words, note func(string)) {
		each(contents(slice.SnapshotEntries(tick, keyedstream.Count(dataflow.KeyBy(w, first)), why)), note)
	}, histories("1a", "1b", "2"))
	want(t, got,
		"2:1|1:1 2:1|1:2 2:1", "2:1|1:2 2:1", "1:1|1:1 2:1|1:2 2:1", "1:1|1:2|1:2 2:1",
		"1:1|1:2 2:1", "1:1 2:1|1:2 2:1", "1:2|1:2 2:1", "1:2 2:1")
}

// TestPreviousEntries checks that a slice can find the keys that were not in its previous run.
func TestPreviousEntries(t *testing.T) {
	script(t, func(at server, w words, note func(any)) {
		tick := slice.At(at)
		now := keyedstream.Count(slice.BatchKeyed(tick, dataflow.KeyBy(dataflow.FlatMap(w, func(s string, emit func(string)) {
			for _, x := range strings.Split(s, ",") {
				emit(x)
			}
		}), first), why))
		before, keep := slice.StateEntries(tick, dataflow.Entry[string, int]{Key: "z", Value: 26})
		keep(now)
		each(singleton.Zip(contents(keyedsingleton.WithoutKeys(now, keyedsingleton.Keys(before))), contents(before)), func(p dataflow.Pair[string, string]) { note(p) })
	}, "", step{"1,2", "(1:1 2:1, z:26)"}, step{"2,3,3", "(3:2, 1:1 2:1)"}, step{"1", "(1:1, 2:1 3:2)"}, step{"z", "(z:1, 1:1)"})
}

// TestStateEntries keeps waiting entries in the state and checks that each leaves the state
// when its other half arrives. It also checks a state that is kept unchanged.
func TestStateEntries(t *testing.T) {
	script(t, func(at server, w words, note func(any)) {
		tick := slice.At(at)
		waiting, keep := slice.StateEntries[string, string](tick)
		batch := slice.BatchKeyed(tick, dataflow.KeyBy(w, first), why)
		all := keyedstream.Chain(keyedsingleton.IntoKeyedStream(waiting), batch)
		pairs := keyedstream.FoldEarlyStop(all, func() string { return "" }, func(acc *string, s string) bool { *acc += s; return len(*acc) >= 4 })
		keep(keyedsingleton.WithoutKeys(keyedstream.First(all), keyedsingleton.Keys(pairs)))
		each(singleton.Zip(contents(pairs), keyedsingleton.KeyCount(waiting)), func(p dataflow.Pair[string, int]) { note(p) })
		unchanged, keepUnchanged := slice.StateEntries(tick, dataflow.Entry[string, int]{Key: "one", Value: 1})
		keepUnchanged(unchanged)
		each(contents(unchanged), func(s string) {
			if s != "one:1" {
				t.Errorf("the unchanged state is %q", s)
			}
		})
	}, "", step{"a1", "(, 0)"}, step{"b1", "(, 1)"}, step{"a2", "(a:a1a2, 2)"}, step{"c1", "(, 1)"}, step{"a3", "(, 2)"}, step{"b2", "(b:b1b2, 3)"}, step{"a4", "(a:a3a4, 2)"})
}

// TestLatest reads the result of a slice in another slice, before and after the first one ran.
func TestLatest(t *testing.T) {
	script(t, func(at server, w words, note func(any)) {
		long := dataflow.Filter(w, func(s string) bool { return len(s) > 1 })
		size := dataflow.Count(slice.Batch(slice.At(at), long, why))
		some := dataflow.Max(dataflow.Filter(slice.Batch(slice.At(at), long, why), func(s string) bool { return s != "none" }))
		reader := slice.At(at)
		number := slice.Passive(slice.Snapshot(reader, slice.Latest(size, -1), why))
		word := slice.SnapshotOptional(reader, slice.LatestOptional(some), why)
		each(singleton.Zip(singleton.Zip(number, optional.IntoSingleton(word)), dataflow.Count(slice.Batch(reader, w, why))), func(p dataflow.Pair[dataflow.Pair[int, dataflow.Maybe[string]], int]) { note(p) })
	}, "", step{"a", "((-1, none), 1)"}, step{"bb", "((1, bb), 1)"}, step{"c", "((1, bb), 1)"}, step{"none", "((1, none), 1)"}, step{"d", "((1, none), 1)"}, step{"ee", "((1, ee), 1)"})
}

// TestOptionalTriggers checks that a slice runs if an optional value appears, changes or
// disappears, and not if there has never been a value.
func TestOptionalTriggers(t *testing.T) {
	script(t, func(at server, w words, note func(any)) {
		last := dataflow.Fold(w, func() string { return "" }, func(acc *string, s string) { *acc = s })
		long := singleton.Filter(last, func(s string) bool { return len(s) > 1 })
		each(optional.IntoSingleton(slice.SnapshotOptional(slice.At(at), long, why)), func(m dataflow.Maybe[string]) { note(m) })
	}, "", step{"a", ""}, step{"bb", "bb"}, step{"cc", "cc"}, step{"d", "none"}, step{"e", ""})
}

// TestAppendToState appends batches to a state, in every way to cut the input into batches.
func TestAppendToState(t *testing.T) {
	all := outcomes(t, func(tick dataflow.Tick[server], w words, note func(string)) {
		before, keep := slice.State(tick, []string(nil))
		after := singleton.Map(singleton.Zip(before, list(slice.Batch(tick, w, why))), func(p dataflow.Pair[[]string, []string]) []string {
			return append(slices.Clip(p.First), p.Second...)
		})
		keep(after)
		each(singleton.Zip(before, after), func(p dataflow.Pair[[]string, []string]) { note(fmt.Sprint(len(p.First), len(p.Second))) })
	}, histories("a1", "a2", "a3"))
	want(t, all, "0 1|1 2|2 3", "0 1|1 3", "0 2|2 3", "0 3")
}

// TestNothingNew checks that a slice does not run for changes that are no new version: changes
// that a filter drops, removals of missing entries and repeats of an extreme.
func TestNothingNew(t *testing.T) {
	for name, build := range map[string]func(at server, w words) dataflow.KeyedSingleton[string, int, server, bounds.Unbounded]{
		"a filter": func(at server, w words) dataflow.KeyedSingleton[string, int, server, bounds.Unbounded] {
			return keyedsingleton.Filter(keyedstream.Count(dataflow.KeyBy(w, first)), func(n int) bool { return n == 2 })
		},
		"a map of a filter": func(at server, w words) dataflow.KeyedSingleton[string, int, server, bounds.Unbounded] {
			pairs := keyedsingleton.Filter(keyedstream.Count(dataflow.KeyBy(w, first)), func(n int) bool { return n == 2 })
			return keyedsingleton.Map(pairs, func(n int) int { return n })
		},
		"a failure": func(at server, w words) dataflow.KeyedSingleton[string, int, server, bounds.Unbounded] {
			values, _ := keyedsingleton.TryMap(keyedstream.Count(dataflow.KeyBy(w, first)), func(n int) (int, error) {
				if n != 2 {
					return 0, fmt.Errorf("%d", n)
				}
				return n, nil
			})
			return values
		},
		"other keys": func(at server, w words) dataflow.KeyedSingleton[string, int, server, bounds.Unbounded] {
			pairs := keyedsingleton.Filter(keyedstream.Count(dataflow.KeyBy(w, first)), func(n int) bool { return n == 2 })
			return keyedsingleton.WithoutKeys(pairs, dataflow.Of(at, "x"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			script(t, func(at server, w words, note func(any)) {
				each(contents(slice.SnapshotEntries(slice.At(at), build(at, w), why)), func(s string) { note("[" + s + "]") })
			}, "", step{"a", ""}, step{"a", "[a:2]"}, step{"b", ""}, step{"a", "[]"}, step{"a", ""}, step{"b", "[b:2]"}, step{"x", ""})
		})
	}
	t.Run("an extreme", func(t *testing.T) {
		script(t, func(at server, w words, note func(any)) {
			longest := keyedstream.Max(keyedstream.Map(dataflow.KeyBy(w, first), func(s string) int { return len(s) }))
			each(contents(slice.SnapshotEntries(slice.At(at), longest, why)), func(s string) { note(s) })
		}, "", step{"aa", "a:2"}, step{"a", ""}, step{"aa", ""}, step{"b", "a:2 b:1"}, step{"aaa", "a:3 b:1"})
	})
}

// TestSortInside checks that each batch is sorted. The whole is sorted only if it is one batch.
func TestSortInside(t *testing.T) {
	got := outcomes(t, func(tick dataflow.Tick[server], w words, note func(string)) {
		dataflow.ForEach(slice.Emit(dataflow.Sort(slice.Batch(tick, w, why))), note)
	}, func(yield func([][]string) bool) {
		for _, pieces := range [][][]string{{{"3", "1", "2"}}, {{"3"}, {"1", "2"}}, {{"3", "1"}, {"2"}}, {{"3"}, {"1"}, {"2"}}} {
			if !yield(pieces) {
				return
			}
		}
	})
	want(t, got, "1|2|3", "3|1|2", "1|3|2")
}

// TestNoInput checks that a slice that nothing would run is refused when the flow starts.
// Passive of a collection that is no snapshot, and wrong use of a state, are refused while the
// flow is built.
func TestNoInput(t *testing.T) {
	for _, c := range []struct {
		name, want string
		build      func(at server, w words)
	}{
		{"only state", "has no input", func(at server, w words) { slice.StateEntries[string, int](slice.At(at)) }},
		{"only passive", "has no input", func(at server, w words) {
			slice.Passive(slice.Passive(slice.Snapshot(slice.At(at), dataflow.Count(w), why)))
		}},
		{"only a constant", "has no input", func(at server, w words) {
			slice.Passive(slice.Snapshot(slice.At(at), dataflow.Count(dataflow.Of(at, 1)), why))
		}},
		{"passive batch", "no snapshot", func(at server, w words) {
			slice.Passive(slice.BatchEntries(slice.At(at), keyedstream.First(dataflow.KeyBy(w, first)), why))
		}},
		{"passive map", "no snapshot", func(at server, w words) {
			slice.Passive(singleton.Map(slice.Snapshot(slice.At(at), dataflow.Count(w), why), func(n int) int { return n }))
		}},
		{"a key twice", "the key one is given twice", func(at server, w words) {
			e := dataflow.Entry[string, int]{Key: "one"}
			slice.StateEntries(slice.At(at), e, e)
		}},
		{"kept twice", "was given before", func(at server, w words) {
			state, keep := slice.StateEntries[string, string](slice.At(at))
			keep(state)
			keep(state)
		}},
		{"kept elsewhere", "are in", func(at server, w words) {
			_, keep := slice.StateEntries[string, string](slice.At(at))
			keep(keyedstream.First(slice.BatchKeyed(slice.At(at), dataflow.KeyBy(w, first), why)))
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "slice: ") || !strings.Contains(p, c.want) {
					t.Errorf("got %s, want a panic that says %q", p, c.want)
				}
			}()
			flow := dataflow.New()
			_, w := dataflow.Input[string](dataflow.At[server](flow), "words")
			c.build(dataflow.At[server](flow), w)
			dataflow.Start(t.Context(), flow)
		})
	}
}

// TestPassive checks that a passive snapshot never runs its slice, not even with its first
// version, and has its latest version whenever another input runs the slice.
func TestPassive(t *testing.T) {
	script(t, func(at server, w words, note func(any)) {
		tick := slice.At(at)
		ask := func(s string) bool { return s == "?" }
		asked := slice.Batch(tick, dataflow.Filter(w, ask), why)
		said := dataflow.Filter(w, func(s string) bool { return !ask(s) })
		number := slice.Passive(slice.Snapshot(tick, dataflow.Count(said), why))
		counts := slice.Passive(slice.SnapshotEntries(tick, keyedstream.Count(dataflow.KeyBy(said, first)), why))
		longest := slice.Passive(slice.SnapshotOptional(tick, dataflow.Max(said), why))
		state := singleton.Zip(singleton.Zip(number, contents(counts)), optional.IntoSingleton(longest))
		each(singleton.Zip(state, dataflow.Count(asked)), func(p dataflow.Pair[dataflow.Pair[dataflow.Pair[int, string], dataflow.Maybe[string]], int]) {
			note(p.First)
		})
	}, "", step{"a", ""}, step{"b", ""}, step{"?", "((2, a:1 b:1), b)"}, step{"?", "((2, a:1 b:1), b)"}, step{"a", ""}, step{"?", "((3, a:2 b:1), b)"})
}
