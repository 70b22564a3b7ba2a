package keyedstream_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type (
	values[L dataflow.Location, B bounds.Stream]       = dataflow.KeyedStream[string, int, L, B, dataflow.TotalOrder, dataflow.ExactlyOnce]
	found[V any, L dataflow.Location, B bounds.Stream] = dataflow.Stream[dataflow.Entry[string, V], L, B, dataflow.NoOrder, dataflow.ExactlyOnce]
	op[V any, L dataflow.Location, B bounds.Stream]    = func(at L, ks values[L, B]) found[V, L, B]
	inside                                             = dataflow.Tick[dataflow.Here]
	grouped[V any]                                     = map[string][]V
)

// pieces are the sizes of the batches into which inputs are cut.
var pieces = gen.SliceOf(gen.IntRange(1, 20))

// everywhere compares an operator with a plain loop: over an unbounded stream that is split
// into batches, in a slice, where it starts afresh in each run, and on a constant. If
// unordered is not nil, it sorts the values of each key before they are compared.
func everywhere[V comparable](t *testing.T, unordered func(a, b V) int, loop func([]number) grouped[V],
	outside op[V, dataflow.Here, bounds.Unbounded], constant op[V, dataflow.Here, bounds.Bounded], sliced op[V, inside, bounds.Bounded],
) {
	t.Helper()
	compare := func(got, want grouped[V]) *gopter.PropResult {
		if unordered != nil {
			for _, m := range []grouped[V]{got, want} {
				for _, vs := range m {
					slices.SortFunc(vs, unordered)
				}
			}
		}
		return same(got, want)
	}
	flow := func(in []number, sizes []int, build func(at dataflow.Here, all numbers) entriesOf[V]) grouped[V] {
		var at dataflow.Here
		return runAt(in, sizes, func(here dataflow.Here) { at = here }, func(all numbers) entriesOf[V] { return build(at, all) })
	}
	check(t, map[string]gopter.Prop{
		"unbounded": prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			return compare(flow(in, sizes, outside), loop(in))
		}, inputs, pieces),
		"in a slice": prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			want := make(grouped[V])
			for rest := range batches(in, sizes) {
				for k, vs := range loop(rest) {
					want[k] = append(want[k], vs...)
				}
			}
			return compare(flow(in, sizes, func(at dataflow.Here, all numbers) entriesOf[V] {
				tick := slice.At(at)
				return slice.Emit(sliced(tick, slice.BatchKeyed(tick, all, "each batch is compared alone")))
			}), want)
		}, inputs, pieces),
		"on a constant": prop.ForAll(func(in []number) *gopter.PropResult {
			got := make(grouped[V])
			dataflow.Local(func(at dataflow.Here) {
				out := dataflow.AssumeOrder(constant(at, dataflow.Keyed(dataflow.Of(at, in...))), "compared key by key")
				dataflow.ForEach(out, func(e dataflow.Entry[string, V]) { got[e.Key] = append(got[e.Key], e.Value) })
			})
			return compare(got, loop(in))
		}, inputs),
	})
}

// batches yields in, cut into pieces of the given sizes, and the rest one by one.
func batches(in []number, sizes []int) func(func([]number) bool) {
	return func(yield func([]number) bool) {
		for _, n := range append(slices.Clone(sizes), slices.Repeat([]int{1}, len(in))...) {
			n = min(n, len(in))
			if n > 0 && !yield(in[:n]) {
				return
			}
			in = in[n:]
		}
	}
}

// runAt is like run, and also calls at with the location.
func runAt[V any](in []number, sizes []int, at func(dataflow.Here), build func(numbers) entriesOf[V]) grouped[V] {
	got := make(grouped[V])
	flow := dataflow.New()
	here := dataflow.At[dataflow.Here](flow)
	at(here)
	port, entries := dataflow.Input[number](here, "entries")
	out := dataflow.AssumeOrder(build(dataflow.Keyed(entries)), "compared key by key")
	dataflow.ForEach(out, func(e dataflow.Entry[string, V]) { got[e.Key] = append(got[e.Key], e.Value) })
	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		panic(err)
	}
	for part := range batches(in, sizes) {
		if _, err := port.SendBatch(context.Background(), part); err != nil {
			panic(err)
		}
	}
	if err := app.Stop(context.Background()); err != nil {
		panic(err)
	}
	return got
}

// each returns a loop that treats each key separately.
func each[V any](f func(k string, vs []int) []V) func([]number) grouped[V] {
	return func(in []number) grouped[V] {
		by := make(map[string][]int)
		for _, e := range in {
			by[e.Key] = append(by[e.Key], e.Value)
		}
		out := make(grouped[V])
		for k, vs := range by {
			if us := f(k, vs); len(us) > 0 {
				out[k] = us
			}
		}
		return out
	}
}

func expand(n int, emit func(int)) {
	for i := range max(n, 0) {
		emit(n * i)
	}
}

func flatMap[L dataflow.Location, B bounds.Stream](_ L, ks values[L, B]) found[int, L, B] {
	return keyedstream.Entries(keyedstream.FlatMap(ks, expand))
}

func TestFlatMap(t *testing.T) {
	everywhere(t, nil, each(func(_ string, vs []int) (out []int) {
		for _, v := range vs {
			expand(v, func(x int) { out = append(out, x) })
		}
		return out
	}), flatMap[dataflow.Here, bounds.Unbounded], flatMap[dataflow.Here, bounds.Bounded], flatMap[inside, bounds.Bounded])
}

func rekey[L dataflow.Location, B bounds.Stream](_ L, ks values[L, B]) found[int, L, B] {
	return keyedstream.Entries(keyedstream.Rekey(ks, func(k string, v int) string { return fmt.Sprint(k < "b", v%2) }))
}

func TestRekey(t *testing.T) {
	everywhere(t, func(a, b int) int { return a - b }, func(in []number) grouped[int] {
		out := make(grouped[int])
		for _, e := range in {
			k := fmt.Sprint(e.Key < "b", e.Value%2)
			out[k] = append(out[k], e.Value)
		}
		return out
	}, rekey[dataflow.Here, bounds.Unbounded], rekey[dataflow.Here, bounds.Bounded], rekey[inside, bounds.Bounded])
}

func prefix[L dataflow.Location, B bounds.Stream](_ L, ks values[L, B]) found[string, L, B] {
	finer := keyedstream.Enumerate(keyedstream.PrefixKey(ks, func(_ string, v int) bool { return v > 3 }))
	flat := keyedstream.MapWithKey(finer, func(k dataflow.Pair[bool, string], v dataflow.Pair[int, int]) string { return fmt.Sprint(k.First, v) })
	return keyedstream.Entries(keyedstream.Rekey(flat, func(k dataflow.Pair[bool, string], _ string) string { return k.Second }))
}

func TestPrefixKey(t *testing.T) {
	everywhere(t, compareText, each(func(_ string, vs []int) (out []string) {
		n := make(map[bool]int)
		for _, v := range vs {
			out = append(out, fmt.Sprintf("%v (%d, %d)", v > 3, n[v > 3], v))
			n[v > 3]++
		}
		return out
	}), prefix[dataflow.Here, bounds.Unbounded], prefix[dataflow.Here, bounds.Bounded], prefix[inside, bounds.Bounded])
}

func compareText(a, b string) int { return slices.Compare([]byte(a), []byte(b)) }

func unique[L dataflow.Location, B bounds.Stream](_ L, ks values[L, B]) found[int, L, B] {
	return keyedstream.Entries(keyedstream.Unique(keyedstream.AssumeRepeats(ks)))
}

func TestUnique(t *testing.T) {
	everywhere(t, nil, each(func(_ string, vs []int) (out []int) {
		for _, v := range vs {
			if !slices.Contains(out, v) {
				out = append(out, v)
			}
		}
		return out
	}), unique[dataflow.Here, bounds.Unbounded], unique[dataflow.Here, bounds.Bounded], unique[inside, bounds.Bounded])
}

func keys[L dataflow.Location, B bounds.Stream](_ L, ks values[L, B]) found[int, L, B] {
	return dataflow.Map(keyedstream.Keys(ks), func(k string) number { return number{Key: k, Value: len(k)} })
}

func TestKeys(t *testing.T) {
	everywhere(t, nil, each(func(k string, _ []int) []int { return []int{len(k)} }),
		keys[dataflow.Here, bounds.Unbounded], keys[dataflow.Here, bounds.Bounded], keys[inside, bounds.Bounded])
}

func limit[L dataflow.Location, B bounds.Stream](_ L, ks values[L, B]) found[string, L, B] {
	return keyedstream.Entries(keyedstream.Map(keyedstream.Enumerate(keyedstream.Limit(ks, 3)), dataflow.Pair[int, int].String))
}

func TestLimitAndEnumerate(t *testing.T) {
	everywhere(t, nil, each(func(_ string, vs []int) (out []string) {
		for i, v := range vs[:min(3, len(vs))] {
			out = append(out, fmt.Sprintf("(%d, %d)", i, v))
		}
		return out
	}), limit[dataflow.Here, bounds.Unbounded], limit[dataflow.Here, bounds.Bounded], limit[inside, bounds.Bounded])
}

var errOdd = errors.New("odd")

func halve(v int) (int, error) {
	if v%2 != 0 {
		return 0, errOdd
	}
	return v / 2, nil
}

func try[L dataflow.Location, B bounds.Stream](_ L, ks values[L, B]) found[string, L, B] {
	small, big := keyedstream.Partition(ks, func(v int) bool { return v < 5 })
	halves, failures := keyedstream.TryMap(small, halve)
	ok := keyedstream.Map(halves, func(v int) string { return fmt.Sprint("half ", v) })
	failed := keyedstream.Map(failures, dataflow.Failure[int].Error)
	rest := keyedstream.Map(big, func(v int) string { return fmt.Sprint("big ", v) })
	return keyedstream.Entries(keyedstream.Merge(keyedstream.Merge(ok, failed), rest))
}

func TestPartitionAndTryMap(t *testing.T) {
	everywhere(t, compareText, each(func(_ string, vs []int) (out []string) {
		for _, v := range vs {
			switch half, err := halve(v); {
			case v >= 5:
				out = append(out, fmt.Sprint("big ", v))
			case err != nil:
				out = append(out, fmt.Sprintf("%d: odd", v))
			default:
				out = append(out, fmt.Sprint("half ", half))
			}
		}
		return out
	}), try[dataflow.Here, bounds.Unbounded], try[dataflow.Here, bounds.Bounded], try[inside, bounds.Bounded])
}

func join[L dataflow.Location, B bounds.Stream](_ L, ks values[L, B]) found[string, L, B] {
	even := keyedstream.Filter(ks, func(v int) bool { return v%2 == 0 })
	return keyedstream.Entries(keyedstream.Map(keyedstream.Join(ks, even), dataflow.Pair[int, int].String))
}

func TestJoin(t *testing.T) {
	everywhere(t, compareText, each(func(_ string, vs []int) (out []string) {
		for _, v := range vs {
			for _, w := range vs {
				if w%2 == 0 {
					out = append(out, fmt.Sprintf("(%d, %d)", v, w))
				}
			}
		}
		return out
	}), join[dataflow.Here, bounds.Unbounded], join[dataflow.Here, bounds.Bounded], join[inside, bounds.Bounded])
}

// chain chains two constants before a stream. The constant of the last call comes first.
func chain[L dataflow.Location, B bounds.Stream](at L, ks values[L, B]) found[int, L, B] {
	second := keyedstream.Chain(dataflow.Keyed(dataflow.Of(at, number{Key: "a", Value: 1}, number{Key: "z", Value: 2})), ks)
	first := keyedstream.Chain(dataflow.Keyed(dataflow.Of(at, number{Key: "a", Value: 3}, number{Key: "a", Value: 4})), second)
	return keyedstream.Entries(keyedstream.AntiJoin(first, dataflow.Of(at, "b", "b", "none")))
}

func TestChainAndAntiJoin(t *testing.T) {
	// The constants are emitted even if no input arrives, but not in a slice.
	loop := func(in []number) grouped[int] {
		out := grouped[int]{"a": {3, 4, 1}, "z": {2}}
		for _, e := range in {
			if e.Key != "b" {
				out[e.Key] = append(out[e.Key], e.Value)
			}
		}
		return out
	}
	everywhere(t, nil, loop, chain[dataflow.Here, bounds.Unbounded], chain[dataflow.Here, bounds.Bounded], chain[inside, bounds.Bounded])
}

func cross[L dataflow.Location, B bounds.Stream](at L, ks values[L, B]) found[int, L, B] {
	add := func(p dataflow.Pair[int, int]) int { return p.First + p.Second }
	kept := keyedstream.FilterWithKey(keyedstream.Map(keyedstream.CrossSingleton(ks, singleton.Of(at, 100)), add), func(k string, v int) bool { return k != "a" || v > 103 })
	return keyedstream.Entries(keyedstream.FilterMapWithKey(kept, func(k string, v int) (int, bool) { return v + len(k), v != 101 }))
}

func TestCrossAndFilters(t *testing.T) {
	everywhere(t, nil, each(func(k string, vs []int) (out []int) {
		for _, v := range vs {
			if v += 100; (k != "a" || v > 103) && v != 101 {
				out = append(out, v+len(k))
			}
		}
		return out
	}), cross[dataflow.Here, bounds.Unbounded], cross[dataflow.Here, bounds.Bounded], cross[inside, bounds.Bounded])
}

func merge[L dataflow.Location, B bounds.Stream](_ L, ks values[L, B]) found[int, L, B] {
	double := keyedstream.Map(ks, func(v int) int { return 2 * v })
	return keyedstream.Entries(keyedstream.MergeOrdered(ks, double, "values of one are told from those of the other"))
}

// TestMergeOrdered compares MergeOrdered with a loop without regard to order.
// TestMergeOrderedKeepsOrder checks the order.
func TestMergeOrdered(t *testing.T) {
	everywhere(t, func(a, b int) int { return a - b }, each(func(_ string, vs []int) (out []int) {
		for _, v := range vs {
			out = append(out, v, 2*v)
		}
		return out
	}), merge[dataflow.Here, bounds.Unbounded], merge[dataflow.Here, bounds.Bounded], merge[inside, bounds.Bounded])
}

// TestEffects checks that an inspection runs once for each value, whether or not its result is
// used.
func TestEffects(t *testing.T) {
	in := []number{{Key: "a", Value: 1}, {Key: "b", Value: 2}, {Key: "a", Value: 3}}
	values, keyed := []int(nil), make(map[string]int)
	runAt(in, []int{2}, func(dataflow.Here) {}, func(all numbers) entriesOf[int] {
		keyedstream.Inspect(all, func(v int) { values = append(values, v) })
		return keyedstream.Entries(keyedstream.InspectWithKey(all, func(k string, v int) { keyed[k] += v }))
	})
	if !slices.Equal(values, []int{1, 2, 3}) || !maps.Equal(keyed, map[string]int{"a": 4, "b": 2}) {
		t.Errorf("saw %v and %v", values, keyed)
	}
}
