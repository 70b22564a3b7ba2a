package slice_test

import (
	"context"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

type counts = dataflow.KeyedStream[int, int, server, bounds.Unbounded, dataflow.TotalOrder, dataflow.ExactlyOnce]

// TestRunsAllocateNothing checks that steps allocate nothing once tables and buffers have
// grown: a step that changes a fold, and a slice that joins, aggregates, reads a snapshot or
// keeps state. It catches a batch that is allocated for each step.
func TestRunsAllocateNothing(t *testing.T) {
	const keys = 64
	sum := func(acc *int, x int) { *acc += x }
	zero := func() int { return 0 }
	flows := map[string]func(at server, in counts){
		"changes of a fold": func(at server, in counts) {
			keyedsingleton.Inspect(keyedsingleton.Map(keyedstream.Fold(in, zero, sum), func(n int) int { return n + 1 }), func(int) {})
		},
		"a fold in a slice": func(at server, in counts) {
			tick := slice.At(at)
			sums := keyedstream.Fold(slice.BatchKeyed(tick, in, why), zero, sum)
			keyedsingleton.Inspect(sums, func(int) {})
		},
		"a join with a snapshot": func(at server, in counts) {
			tick := slice.At(at)
			now := slice.SnapshotEntries(tick, keyedsingleton.Map(keyedstream.Fold(in, zero, sum), func(n int) int { return n + 1 }), why)
			joined := keyedsingleton.JoinKeyedStream(slice.Passive(now), slice.BatchKeyed(tick, in, why))
			keyedstream.Inspect(slice.EmitKeyed(joined), func(dataflow.Pair[int, int]) {})
		},
		"all of a snapshot": func(at server, in counts) {
			tick := slice.At(at)
			now := slice.SnapshotEntries(tick, keyedstream.Fold(in, zero, sum), why)
			keyedsingleton.Inspect(now, func(int) {})
		},
		"state": func(at server, in counts) {
			tick := slice.At(at)
			old, keep := slice.StateEntries[int, int](tick)
			keep(keyedstream.First(keyedstream.Chain(slice.BatchKeyed(tick, in, why), keyedsingleton.IntoKeyedStream(old))))
		},
	}
	for name, build := range flows {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			f := dataflow.New()
			at := dataflow.At[server](f)
			port, in := keyedstream.Input[int, int](at, "in")
			build(at, in)
			app, err := dataflow.Start(ctx, f)
			if err != nil {
				t.Fatal(err)
			}
			k := 0
			send := func() {
				k = (k + 1) % keys
				if err := port.Send(ctx, k, 1); err != nil {
					t.Error(err)
				}
			}
			for range 4 * keys {
				send()
			}
			if n := testing.AllocsPerRun(10*keys, send); n > 0 {
				t.Errorf("a step allocates %v times, want 0", n)
			}
			if err := app.Stop(ctx); err != nil {
				t.Fatal(err)
			}
		})
	}
}
