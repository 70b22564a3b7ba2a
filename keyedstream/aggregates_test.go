package keyedstream_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// final compares an aggregate with a plain loop: its final value over an unbounded stream
// that is split into batches, its value in each run of a slice, and on a constant.
func final[V comparable, B bounds.Changing](t *testing.T, loop func(vs []int) V,
	outside func(values[dataflow.Here, bounds.Unbounded]) dataflow.KeyedSingleton[string, V, dataflow.Here, B],
	constant func(values[dataflow.Here, bounds.Bounded]) dataflow.KeyedSingleton[string, V, dataflow.Here, bounds.Bounded],
	sliced func(values[inside, bounds.Bounded]) dataflow.KeyedSingleton[string, V, inside, bounds.Bounded],
) {
	t.Helper()
	want := func(in []number) map[string]V {
		ends := make(map[string]V)
		for k, vs := range each(func(_ string, vs []int) []int { return vs })(in) {
			ends[k] = loop(vs)
		}
		return ends
	}
	compare := func(got, want []map[string]V) *gopter.PropResult {
		if slices.EqualFunc(got, want, maps.Equal) {
			return gopter.NewPropResult(true, "")
		}
		return gopter.NewPropResult(false, fmt.Sprintf("got %v, want %v", got, want))
	}
	check(t, map[string]gopter.Prop{
		"unbounded": prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			pushed, seen := make(map[string]V), make(map[string]V)
			var at dataflow.Here
			runAt(in, sizes, func(here dataflow.Here) { at = here }, func(all numbers) entriesOf[int] {
				ks := outside(all)
				keyedsingleton.InspectWithKey(ks, func(k string, v V) { pushed[k] = v })
				now := slice.SnapshotEntries(slice.At(at), ks, "the last one is compared")
				keyedsingleton.InspectWithKey(now, func(k string, v V) { seen[k] = v })
				return keyedstream.Entries(all)
			})
			return compare([]map[string]V{pushed, seen}, []map[string]V{want(in), want(in)})
		}, inputs, pieces),
		"in a slice": prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			var all, runs []map[string]V
			for part := range batches(in, sizes) {
				all = append(all, want(part))
			}
			var at dataflow.Here
			runAt(in, sizes, func(here dataflow.Here) { at = here }, func(ks numbers) entriesOf[int] {
				view := keyedsingleton.IntoSingleton(sliced(slice.BatchKeyed(slice.At(at), ks, "each run is compared")))
				dataflow.ForEach(singleton.IntoStream(view), func(v dataflow.View[string, V]) { runs = append(runs, maps.Collect(v.All())) })
				return keyedstream.Entries(ks)
			})
			return compare(runs, all)
		}, inputs, pieces),
		"on a constant": prop.ForAll(func(in []number) *gopter.PropResult {
			got := make(map[string]V)
			dataflow.Local(func(at dataflow.Here) {
				keyedsingleton.InspectWithKey(constant(dataflow.Keyed(dataflow.Of(at, in...))), func(k string, v V) { got[k] = v })
			})
			return compare([]map[string]V{got}, []map[string]V{want(in)})
		}, inputs),
	})
}

func TestSum(t *testing.T) {
	final(t, func(vs []int) (sum int) {
		for _, v := range vs {
			sum += v
		}
		return sum
	}, keyedstream.Sum, keyedstream.Sum, keyedstream.Sum)
}

func TestMin(t *testing.T) {
	final(t, slices.Min[[]int], keyedstream.Min, keyedstream.Min, keyedstream.Min)
}

func TestMax(t *testing.T) {
	final(t, slices.Max[[]int], keyedstream.Max, keyedstream.Max, keyedstream.Max)
}

func reduced[L dataflow.Location, B bounds.Folded[Out], Out bounds.KeyedSingleton](ks values[L, B]) dataflow.KeyedSingleton[string, int, L, Out] {
	return keyedstream.Reduce(ks, mix)
}

// mix depends on the order of values.
func mix(acc *int, v int) { *acc = 31**acc + v }

func TestReduce(t *testing.T) {
	final(t, func(vs []int) int {
		acc := vs[0]
		for _, v := range vs[1:] {
			mix(&acc, v)
		}
		return acc
	}, reduced[dataflow.Here, bounds.Unbounded], reduced[dataflow.Here, bounds.Bounded], reduced[inside, bounds.Bounded])
}

func growing[L dataflow.Location, B bounds.FoldedGrowing[Out], Out bounds.Aggregate](ks values[L, B]) dataflow.KeyedSingleton[string, int, L, Out] {
	return keyedstream.FoldGrowing(ks, func() int { return 7 }, func(acc *int, v int) { *acc = max(31**acc, *acc+v) }, "a max with what it was")
}

func TestFoldGrowing(t *testing.T) {
	final(t, func(vs []int) int {
		acc := 7
		for _, v := range vs {
			acc = max(31*acc, acc+v)
		}
		return acc
	}, growing[dataflow.Here, bounds.Unbounded], growing[dataflow.Here, bounds.Bounded], growing[inside, bounds.Bounded])
}

func product[L dataflow.Location, B bounds.Folded[Out], Out bounds.KeyedSingleton](ks values[L, B]) dataflow.KeyedSingleton[string, int, L, Out] {
	all := keyedstream.Merge(ks, keyedstream.Filter(ks, func(v int) bool { return v > 4 }))
	return keyedstream.FoldCommutative(all, func() int { return 1 }, func(acc *int, v int) { *acc *= v }, "multiplication is commutative")
}

func TestFoldCommutative(t *testing.T) {
	final(t, func(vs []int) int {
		acc := 1
		for _, v := range vs {
			if acc *= v; v > 4 {
				acc *= v
			}
		}
		return acc
	}, product[dataflow.Here, bounds.Unbounded], product[dataflow.Here, bounds.Bounded], product[inside, bounds.Bounded])
}

// TestExtremesOfNaN checks that Min and Max return NaN if a value is NaN, like the builtins,
// in any order of the values.
func TestExtremesOfNaN(t *testing.T) {
	nan := math.NaN()
	for _, vs := range [][]float64{{1, nan, 2}, {nan, 1, 2}, {1, 2, nan}, {nan, nan}} {
		var got []float64
		dataflow.Local(func(at dataflow.Here) {
			ks := dataflow.KeyBy(dataflow.Of(at, vs...), func(float64) int { return 0 })
			keyedsingleton.Inspect(keyedstream.Min(ks), func(v float64) { got = append(got, v) })
			keyedsingleton.Inspect(keyedstream.Max(ks), func(v float64) { got = append(got, v) })
		})
		if len(got) != 2 || !math.IsNaN(got[0]) || !math.IsNaN(got[1]) {
			t.Errorf("extremes of %v are %v", vs, got)
		}
	}
}
