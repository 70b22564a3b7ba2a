package keyedstream_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/gen"
	"github.com/leanovate/gopter/prop"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

var seed = flag.Int64("seed", 0, "seed of the random tests; 0 takes one from the clock")

type entriesOf[V any] = dataflow.Stream[dataflow.Entry[string, V], dataflow.Here, bounds.Unbounded, dataflow.NoOrder, dataflow.ExactlyOnce]

type (
	number  = dataflow.Entry[string, int]
	numbers = dataflow.KeyedStream[string, int, dataflow.Here, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]
)

// inputs are entries with few keys, so that keys repeat. cuts are sizes of batches.
var (
	inputs = gen.SliceOf(gen.Struct(reflect.TypeFor[number](), map[string]gopter.Gen{"Key": gen.OneConstOf("", "a", "b", "c", "d"), "Value": gen.IntRange(-3, 9)}))
	cuts   = gen.SliceOf(gen.IntRange(1, 2000))
)

// check tests properties with a seed. If one fails, it prints how to run it again.
func check(t *testing.T, laws map[string]gopter.Prop) {
	t.Helper()
	s := *seed
	if s == 0 {
		s = time.Now().UnixNano()
	}
	for _, name := range slices.Sorted(maps.Keys(laws)) {
		params := gopter.DefaultTestParametersWithSeed(s)
		params.MinSuccessfulTests = 60
		params.MaxSize = 150
		props := gopter.NewProperties(params)
		props.Property(name, laws[name])
		var report bytes.Buffer
		if !props.Run(gopter.NewFormatedReporter(false, 100, &report)) {
			t.Errorf("%s\nrerun: go test ./keyedstream -run '^%s$' -seed %d", &report, t.Name(), s)
		}
	}
}

// run sends entries to a flow, in batches of the given sizes and the rest one by one. It
// returns the results of each key, in order.
func run[V any](in []number, sizes []int, build func(numbers) entriesOf[V]) map[string][]V {
	got := make(map[string][]V)
	flow := dataflow.New()
	port, entries := dataflow.Input[number](dataflow.At[dataflow.Here](flow), "entries")
	out := dataflow.AssumeOrder(build(dataflow.Keyed(entries)), "compared key by key")
	dataflow.ForEach(out, func(e dataflow.Entry[string, V]) { got[e.Key] = append(got[e.Key], e.Value) })
	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		panic(err)
	}
	for _, n := range append(slices.Clone(sizes), slices.Repeat([]int{1}, len(in))...) {
		n = min(n, len(in))
		if _, err := port.SendBatch(context.Background(), in[:n]); err != nil {
			panic(err)
		}
		in = in[n:]
	}
	port.Close()
	if err := app.Wait(); err != nil {
		panic(err)
	}
	return got
}

// same compares the result of a flow with that of a plain loop.
func same[V comparable](got, want map[string][]V) *gopter.PropResult {
	if maps.EqualFunc(got, want, slices.Equal) {
		return gopter.NewPropResult(true, "")
	}
	return gopter.NewPropResult(false, fmt.Sprintf("got %v, want %v", got, want))
}

func onlyValue[V any, B bounds.FixedValues[bounds.Unbounded]](ks dataflow.KeyedSingleton[string, V, dataflow.Here, B]) entriesOf[V] {
	return keyedsingleton.Entries(ks)
}

// TestAgainstLoop compares each aggregate with a plain loop over its input, for random splits
// of the input into batches. It catches wrong results of an operator.
func TestAgainstLoop(t *testing.T) {
	group := func(in []number) map[string][]int {
		by := make(map[string][]int)
		for _, e := range in {
			by[e.Key] = append(by[e.Key], e.Value)
		}
		return by
	}
	check(t, map[string]gopter.Prop{
		"First is the first of each key": prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			want := group(in)
			for k, vs := range want {
				want[k] = vs[:1]
			}
			return same(run(in, sizes, func(ks numbers) entriesOf[int] { return onlyValue(keyedstream.First(ks)) }), want)
		}, inputs, cuts),

		"FoldEarlyStop stops for good": prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			want := make(map[string][]int)
			for k, vs := range group(in) {
				sum := 0
				for _, v := range vs {
					if sum += v; sum > 10 {
						want[k] = []int{sum}
						break
					}
				}
			}
			return same(run(in, sizes, func(ks numbers) entriesOf[int] {
				return onlyValue(keyedstream.FoldEarlyStop(ks, func() int { return 0 }, func(acc *int, v int) bool { *acc += v; return *acc > 10 }))
			}), want)
		}, inputs, cuts),

		"ScanFirst decides once and emits as it goes": prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			want := make(map[string][]int)
			for k, vs := range group(in) {
				want[k] = append(want[k], vs...)
				if i := slices.IndexFunc(vs, func(v int) bool { return v > 4 }); i >= 0 {
					want[k] = append(want[k], 100+vs[i])
				}
				slices.Sort(want[k])
			}
			got := run(in, sizes, func(ks numbers) entriesOf[int] {
				emitted, decided := keyedstream.ScanFirst(ks, func() int { return 0 }, func(_ *int, v int, emit func(int)) (int, bool) {
					emit(v)
					return 100 + v, v > 4
				})
				return dataflow.Merge(keyedstream.Entries(emitted), keyedsingleton.Entries(decided))
			})
			for _, vs := range got {
				slices.Sort(vs)
			}
			return same(got, want)
		}, inputs, cuts),

		"Scan emits as it goes": prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			want := make(map[string][]int)
			for k, vs := range group(in) {
				sum := 0
				for _, v := range vs {
					for range max(v, 0) % 3 {
						want[k] = append(want[k], sum)
					}
					sum += v
				}
			}
			return same(run(in, sizes, func(ks numbers) entriesOf[int] {
				return keyedstream.Entries(keyedstream.Scan(ks, func() int { return 0 }, func(sum *int, v int, emit func(int)) {
					for range max(v, 0) % 3 {
						emit(*sum)
					}
					*sum += v
				}))
			}), want)
		}, inputs, cuts),

		"Fold and Count end with the whole": prop.ForAll(func(in []number, sizes []int) *gopter.PropResult {
			want := make(map[string][]string)
			for k, vs := range group(in) {
				text := ""
				for _, v := range vs {
					text += fmt.Sprint(v, ";")
				}
				want[k] = []string{fmt.Sprint(text, len(vs))}
			}
			got := make(map[string][]string)
			run(in, sizes, func(ks numbers) entriesOf[int] {
				text := keyedstream.Fold(ks, func() string { return "" }, func(acc *string, v int) { *acc += fmt.Sprint(v, ";") })
				last := make(map[string]string)
				keyedsingleton.InspectWithKey(text, func(k, s string) { last[k] = s })
				keyedsingleton.InspectWithKey(keyedstream.Count(ks), func(k string, n int) { got[k] = []string{fmt.Sprint(last[k], n)} })
				return keyedstream.Entries(ks)
			})
			return same(got, want)
		}, inputs, cuts),
	})
}

// TestLaws compares pairs of programs that must have the same result. It catches operators
// that contradict each other, or depend on the batches.
func TestLaws(t *testing.T) {
	f := func(x int) int { return 3*x - 1 }
	g := func(x int) int { return x * x }
	even := func(x int) bool { return x%2 == 0 }
	laws := []struct {
		name string
		a, b func(numbers) entriesOf[int]
	}{{
		"two maps are one",
		func(ks numbers) entriesOf[int] {
			return keyedstream.Entries(keyedstream.Map(keyedstream.Map(ks, f), g))
		},
		func(ks numbers) entriesOf[int] {
			return keyedstream.Entries(keyedstream.Map(ks, func(x int) int { return g(f(x)) }))
		},
	}, {
		"a filter moves before a map",
		func(ks numbers) entriesOf[int] {
			return keyedstream.Entries(keyedstream.Filter(keyedstream.Map(ks, f), even))
		},
		func(ks numbers) entriesOf[int] {
			return keyedstream.Entries(keyedstream.Map(keyedstream.Filter(ks, func(x int) bool { return even(f(x)) }), f))
		},
	}, {
		"FilterMap is both",
		func(ks numbers) entriesOf[int] {
			return keyedstream.Entries(keyedstream.FilterMap(ks, func(x int) (int, bool) { return f(x), even(x) }))
		},
		func(ks numbers) entriesOf[int] {
			return keyedstream.Entries(keyedstream.Map(keyedstream.Filter(ks, even), f))
		},
	}, {
		"First is a fold that stops at once",
		func(ks numbers) entriesOf[int] { return onlyValue(keyedstream.First(ks)) },
		func(ks numbers) entriesOf[int] {
			return onlyValue(keyedstream.FoldEarlyStop(ks, func() int { return 0 }, func(acc *int, v int) bool { *acc = v; return true }))
		},
	}, {
		"mapping entries is mapping what they come from",
		func(ks numbers) entriesOf[int] { return onlyValue(keyedsingleton.Map(keyedstream.First(ks), f)) },
		func(ks numbers) entriesOf[int] { return onlyValue(keyedstream.First(keyedstream.Map(ks, f))) },
	}, {
		"keys survive a round trip",
		func(ks numbers) entriesOf[int] { return keyedstream.Entries(ks) },
		func(ks numbers) entriesOf[int] {
			again := dataflow.AssumeOrder(keyedstream.Entries(ks), "compared key by key")
			return keyedstream.Entries(dataflow.Keyed(again))
		},
	}}
	all := make(map[string]gopter.Prop)
	for _, law := range laws {
		all[law.name] = prop.ForAll(func(in []number, one, other []int) *gopter.PropResult {
			return same(run(in, one, law.a), run(in, other, law.b))
		}, inputs, cuts, cuts)
	}
	check(t, all)
}
