package slice_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

// TestStateAgainstModel keeps keyed state through random runs that add, change and remove
// entries, few or nearly all of them. It compares the state of each run, as a whole and by
// lookups, with a map. It catches entries that are lost, kept too long or duplicated.
func TestStateAgainstModel(t *testing.T) {
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 1))
		ctx := context.Background()
		f := dataflow.New()
		at := dataflow.At[server](f)
		type change = dataflow.Entry[float64, int]
		in, changes := dataflow.Input[change](at, "changes")
		tick := slice.At(at)
		old, keep := slice.StateEntries[float64, int](tick)
		batch := keyedstream.Map(slice.BatchKeyed(tick, dataflow.KeyBy(changes, func(c change) float64 { return c.Key }), why),
			func(c change) int { return c.Value })
		last := keyedstream.Reduce(keyedstream.Chain(keyedsingleton.IntoKeyedStream(old), batch), func(acc *int, v int) { *acc = v })
		keep(keyedsingleton.Filter(last, func(v int) bool { return v > 0 }))
		var all []change
		each(list(keyedsingleton.Entries(old)), func(es []change) { all = es })
		probed := 0
		// The lookups come after the next content was set.
		keyedsingleton.Inspect(keyedsingleton.JoinKeyedSingleton(last, old), func(p dataflow.Pair[int, int]) { probed += p.Second })
		app, err := dataflow.Start(ctx, f)
		if err != nil {
			t.Fatal(err)
		}
		model := map[float64]int{}
		for run := range 40 {
			var cs []change
			n := 1 + r.IntN(30)
			if run%10 == 5 {
				n = 3000
			}
			empties := run%10 == 7 // removes most entries
			want := 0
			for range n {
				c := change{Key: float64(r.IntN(2000)), Value: r.IntN(4)}
				cs = append(cs, c)
			}
			if empties {
				for k := range model {
					if k > 20 {
						cs = append(cs, change{Key: k})
					}
				}
			}
			for _, v := range model {
				want += v
			}
			probed, all = 0, nil
			if _, err := in.SendBatch(ctx, cs); err != nil {
				t.Fatal(err)
			}
			got := map[float64]int{}
			for _, e := range all {
				got[e.Key] = e.Value
			}
			if probed != want || len(got) != len(all) || len(got) != len(model) {
				t.Fatalf("seed %d, run %d: %d entries, lookups give %d; want %d, %d", seed, run, len(all), probed, len(model), want)
			}
			for k, v := range model {
				if got[k] != v {
					t.Fatalf("seed %d, run %d: %v has %d, want %d", seed, run, k, got[k], v)
				}
			}
			for _, c := range cs {
				if c.Value > 0 {
					model[c.Key] = c.Value
				} else {
					delete(model, c.Key)
				}
			}
		}
		if err := app.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkState measures a run that changes one entry of a state of 100,000 entries.
func BenchmarkState(b *testing.B) {
	const keys = 100_000
	ctx := context.Background()
	f := dataflow.New()
	at := dataflow.At[server](f)
	in, changes := dataflow.Input[int](at, "changes")
	tick := slice.At(at)
	initial := make([]dataflow.Entry[int, int], keys)
	for k := range initial {
		initial[k].Key = k
	}
	old, keep := slice.StateEntries(tick, initial...)
	fresh := slice.BatchKeyed(tick, dataflow.KeyBy(changes, func(k int) int { return k }), why)
	keep(keyedstream.First(keyedstream.Chain(fresh, keyedsingleton.IntoKeyedStream(old))))
	app, err := dataflow.Start(ctx, f)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		if err := in.Send(ctx, i%keys); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := app.Stop(ctx); err != nil {
		b.Fatal(err)
	}
}
