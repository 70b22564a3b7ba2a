package keyedsingleton_test

import (
	"math/rand/v2"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestChangesApply sends positive and negative votes in batches and applies the changes of the totals
// above zero. Each change must start from the present value and have an old or a new value. At the end
// the applied changes must equal the totals. The test catches a change from an outdated value, and a
// change from nothing to nothing.
func TestChangesApply(t *testing.T) {
	kinds := make(map[string]int)
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		flow := dataflow.New()
		in, votes := keyedstream.Input[int, int](dataflow.At[server](flow), "votes")
		totals := keyedsingleton.Filter(keyedstream.Sum(votes), func(n int) bool { return n > 0 })
		out := keyedstream.Output(keyedsingleton.Changes(totals, why), "changes")
		app := start(t, flow)
		want := make(map[int]int)
		for range 10 {
			var ks, vs []int
			for range 1 + r.IntN(4) {
				k, v := r.IntN(3), r.IntN(5)-2
				ks, vs = append(ks, k), append(vs, v)
				want[k] += v
			}
			if _, err := in.SendBatch(t.Context(), ks, vs); err != nil {
				t.Fatal(err)
			}
		}
		in.Close()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
		got := make(map[int]dataflow.Maybe[int])
		for {
			e, err := out.Next(t.Context())
			if err != nil {
				break
			}
			k, c := e.Key, e.Value
			switch {
			case c.Old != got[k]:
				t.Fatalf("seed %d: %d changes from %v, and has %v", seed, k, c.Old, got[k])
			case !c.Old.OK && !c.New.OK:
				t.Fatalf("seed %d: of %d nothing becomes nothing", seed, k)
			case !c.New.OK:
				kinds["it goes"]++
			case !c.Old.OK:
				kinds["it comes"]++
			default:
				kinds["it changes"]++
			}
			got[k] = c.New
		}
		for k, n := range want {
			if is := got[k]; is.OK != (n > 0) || is.OK && is.Value != n {
				t.Fatalf("seed %d: at the end %d has %v, want %d", seed, k, is, n)
			}
		}
	}
	if len(kinds) != 3 {
		t.Errorf("only %v", kinds)
	}
}
