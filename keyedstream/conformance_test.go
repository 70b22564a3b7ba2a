package keyedstream_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

// sent sends words such as a1 one by one, with the first letter as the key. It returns the
// results of each key, in order.
func sent[V any](words string, build func(at dataflow.Here, ks dataflow.KeyedStream[string, string, dataflow.Here, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]) entriesOf[V]) map[string][]V {
	got := make(map[string][]V)
	flow := dataflow.New()
	at := dataflow.At[dataflow.Here](flow)
	in, ks := keyedstream.Input[string, string](at, "words")
	out := dataflow.AssumeOrder(build(at, ks), "compared key by key")
	dataflow.ForEach(out, func(e dataflow.Entry[string, V]) { got[e.Key] = append(got[e.Key], e.Value) })
	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		panic(err)
	}
	for _, w := range strings.Fields(words) {
		if err := in.Send(context.Background(), w[:1], w[1:]); err != nil {
			panic(err)
		}
	}
	if err := app.Stop(context.Background()); err != nil {
		panic(err)
	}
	return got
}

type texts = dataflow.KeyedStream[string, string, dataflow.Here, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

// TestConformance checks that Scan, Enumerate, Limit and Unique treat each key separately,
// and keep its state for as long as the flow runs.
func TestConformance(t *testing.T) {
	for _, c := range []struct {
		name, words string
		build       func(at dataflow.Here, ks texts) entriesOf[string]
		want        map[string][]string
	}{
		{"B4", "1x 1stop 1y 2z", func(_ dataflow.Here, ks texts) entriesOf[string] {
			return keyedstream.Entries(keyedstream.Scan(ks, func() bool { return true }, func(on *bool, v string, emit func(string)) {
				if *on = *on && v != "stop"; *on {
					emit(v + "'")
				}
			}))
		}, map[string][]string{"1": {"x'"}, "2": {"z'"}}},
		{"B5", "ap bq ar", func(_ dataflow.Here, ks texts) entriesOf[string] {
			return keyedstream.Entries(keyedstream.Map(keyedstream.Enumerate(ks), dataflow.Pair[int, string].String))
		}, map[string][]string{"a": {"(0, p)", "(1, r)"}, "b": {"(0, q)"}}},
		{"B6 two", "a1 a2 b1 a3 b2 b3 a4", func(_ dataflow.Here, ks texts) entriesOf[string] {
			return keyedstream.Entries(keyedstream.Limit(ks, 2))
		}, map[string][]string{"a": {"1", "2"}, "b": {"1", "2"}}},
		{"B6 none", "a1 a2", func(_ dataflow.Here, ks texts) entriesOf[string] {
			return keyedstream.Entries(keyedstream.Limit(ks, 0))
		}, map[string][]string{}},
		{"B13", "1a 1a 2a 1a 1b", func(_ dataflow.Here, ks texts) entriesOf[string] {
			return keyedstream.Entries(keyedstream.Unique(ks))
		}, map[string][]string{"1": {"a", "b"}, "2": {"a"}}},
	} {
		if got := sent(c.words, c.build); !maps.EqualFunc(got, c.want, slices.Equal) {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// interleavings returns every order of the words of a and b that keeps the order of each.
func interleavings(a, b []string) (all [][]string) {
	switch {
	case len(a) == 0:
		return [][]string{b}
	case len(b) == 0:
		return [][]string{a}
	}
	for _, rest := range interleavings(a[1:], b) {
		all = append(all, append([]string{a[0]}, rest...))
	}
	for _, rest := range interleavings(a, b[1:]) {
		all = append(all, append([]string{b[0]}, rest...))
	}
	return all
}

// TestJoinInAnyOrder checks that Join returns each pair once, in any order of the values.
func TestJoinInAnyOrder(t *testing.T) {
	lower := func(s string) bool { return s >= "a" }
	for _, left := range [][]string{{"1a", "1b"}, {"1b", "1a"}} {
		for _, right := range [][]string{{"1X", "1Y", "2Z"}, {"2Z", "1Y", "1X"}} {
			for _, words := range interleavings(left, right) {
				got := sent(strings.Join(words, " "), func(_ dataflow.Here, ks texts) entriesOf[string] {
					a, b := keyedstream.Partition(ks, lower)
					return keyedstream.Entries(keyedstream.Map(keyedstream.Join(a, b), dataflow.Pair[string, string].String))
				})
				slices.Sort(got["1"])
				if want := []string{"(a, X)", "(a, Y)", "(b, X)", "(b, Y)"}; !slices.Equal(got["1"], want) || len(got) != 1 {
					t.Errorf("%v: got %v, want %v", words, got, want)
				}
			}
		}
	}
}

// TestJoinKeepsOrder checks that a stream that is joined with one value for each key keeps
// its order, in a slice and with batches of many keys.
func TestJoinKeepsOrder(t *testing.T) {
	got := sent("a1 b1 a2 c1 a3 b2", func(at dataflow.Here, ks texts) entriesOf[string] {
		tick := slice.At(at)
		twice := keyedstream.FlatMap(ks, func(v string, emit func(string)) { emit(v + "!"); emit(v + "?") })
		counts := slice.SnapshotEntries(tick, keyedstream.Count(keyedstream.FilterWithKey(ks, func(k, _ string) bool { return k != "c" })), "each value sees its own")
		joined := keyedsingleton.JoinKeyedStream(counts, slice.BatchKeyed(tick, twice, "each value is joined alone"))
		return keyedstream.Entries(slice.EmitKeyed(keyedstream.Map(joined, func(p dataflow.Pair[int, string]) string { return fmt.Sprint(p.First, p.Second) })))
	})
	want := map[string][]string{"a": {"11!", "11?", "22!", "22?", "33!", "33?"}, "b": {"11!", "11?", "22!", "22?"}}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestMergeOrderedKeepsOrder checks that MergeOrdered keeps the order of each input within a
// key, and that every interleaving of the inputs can occur.
func TestMergeOrderedKeepsOrder(t *testing.T) {
	seen := make(map[string]bool)
	for _, order := range [][]string{{"1a", "1b", "1c", "2d"}, {"1a", "1c", "1b", "2d"}, {"2d", "1c", "1a", "1b"}} {
		flow := dataflow.New()
		at := dataflow.At[Shop](flow)
		left, one := keyedstream.Input[string, string](at, "left")
		right, other := keyedstream.Input[string, string](at, "right")
		got := make(map[string]string)
		keyedstream.InspectWithKey(keyedstream.MergeOrdered(one, other, "the order is what is tested"), func(k, v string) { got[k] += v })
		app, _ := dataflow.Start(t.Context(), flow)
		for _, w := range order {
			port := left
			if w[1:] > "b" {
				port = right
			}
			port.Send(t.Context(), w[:1], w[1:])
		}
		app.Stop(t.Context())
		seen[got["1"]] = true
		if strings.Index(got["1"], "a") > strings.Index(got["1"], "b") || len(got["1"]) != 3 || got["2"] != "d" {
			t.Errorf("%v came as %v", order, got)
		}
		if why := flow.Reasons(); len(why) != 1 || why[0].Op != "keyedstream.MergeOrdered" {
			t.Errorf("reasons %v", why)
		}
	}
	if len(seen) != 3 {
		t.Errorf("saw %v", slices.Sorted(maps.Keys(seen)))
	}
}

// TestProofs checks that a fold over a stream without order has the same result for every
// order, that its proof is listed, and that wrong arguments such as an empty proof panic.
func TestProofs(t *testing.T) {
	for _, order := range interleavings([]string{"a1", "a2", "b3"}, []string{"a4", "b5"}) {
		last := make(map[string]int)
		sent(strings.Join(order, " "), func(at dataflow.Here, ks texts) entriesOf[string] {
			sets := keyedstream.FoldCommutative(keyedstream.WeakenOrder(ks), func() int { return 0 }, func(set *int, v string) { *set |= 1 << (v[0] - '0') }, "a set has no order")
			keyedsingleton.InspectWithKey(sets, func(k string, set int) { last[k] = set })
			return keyedstream.Entries(ks)
		})
		if want := map[string]int{"a": 0b10110, "b": 0b101000}; !maps.Equal(last, want) {
			t.Errorf("%v: got %v, want %v", order, last, want)
		}
	}
	flow := dataflow.New()
	_, ks := keyedstream.Input[string, int](dataflow.At[Shop](flow), "numbers")
	add := func(acc *int, v int) { *acc += v }
	zero := func() int { return 0 }
	keyedstream.FoldCommutative(ks, zero, add, "addition is commutative")
	keyedstream.FoldGrowing(ks, zero, add, "nothing negative is added")
	keyedstream.FoldCommutativeGrowing(ks, zero, add, "both")
	var got []string
	for _, p := range flow.Proofs() {
		got = append(got, p.Op+": "+string(p.Why))
	}
	if want := []string{"keyedstream.FoldCommutative: addition is commutative", "keyedstream.FoldGrowing: nothing negative is added", "keyedstream.FoldCommutativeGrowing: both"}; !slices.Equal(got, want) {
		t.Errorf("proofs %q, want %q", got, want)
	}
	for name, build := range map[string]func(){
		"keyedstream: FoldCommutative":        func() { keyedstream.FoldCommutative(ks, zero, add, " ") },
		"keyedstream: FoldGrowing":            func() { keyedstream.FoldGrowing(ks, zero, add, "") },
		"keyedstream: FoldCommutativeGrowing": func() { keyedstream.FoldCommutativeGrowing(ks, zero, add, "") },
		"keyedstream: MergeOrdered":           func() { keyedstream.MergeOrdered(ks, ks, "") },
		"keyedstream: AssumeOnce":             func() { keyedstream.AssumeOnce(ks, "") },
		"keyedstream: Limit: n is -1":         func() { keyedstream.Limit(ks, -1) },
		"keyedsingleton: ForgetAfter: ttl is 0s": func() {
			keyedsingleton.ForgetAfter(keyedstream.Count(ks), 0, "the ttl is what is tested")
		},
	} {
		func() {
			defer func() {
				if p := fmt.Sprint(recover()); !strings.HasPrefix(p, name) {
					t.Errorf("%s: panicked with %s", name, p)
				}
			}()
			build()
		}()
	}
}
