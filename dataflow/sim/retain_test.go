package sim_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestForgottenKeys has an operator that remembers one key and the key before it. Which keys it forgets
// depends on the order in which all keys complete. It catches a search that treats keys as independent
// there, because in every other operator they are.
func TestForgottenKeys(t *testing.T) {
	n, got := outcomes(t, func(b bench) string {
		first := keyedstream.FirstWithin(b.keyed("xs", e(1, "a"), e(1, "again"), e(2, "b"), e(3, "c")), keyedstream.Retain{Keys: 1}, tried)
		out := keyedsingleton.Output(first, "first")
		b.Start()
		b.Quiesce()
		x, _ := out.Get(1)
		return x
	})
	// The values of key 1 stay in order, so there are twelve orders. One of the three keys is forgotten
	// in the end. If that is the first one, and it comes again, one of the other two is forgotten as
	// well.
	if n != 5 {
		t.Errorf("%d schedules, want 5", n)
	}
	if want := []string{"", "a", "again"}; !slices.Equal(got, want) {
		t.Errorf("the first value is one of %q, want %q", got, want)
	}
}

// TestEndedLife has a call whose key a machine forgets. The call is made or not, and its answer counts or not, depending on
// when the key is forgotten. It catches a search that treats the calls of a key as independent of the key.
func TestEndedLife(t *testing.T) {
	_, got := outcomes(t, func(b bench) string {
		_, decided := keyedstream.Machine(b.keyed("xs", e(1, "decide"), e(1, "forget")), func() int { return 0 },
			func(_ *int, x string, do *keyedstream.Turn[int, string, string]) {
				if x == "decide" {
					do.Decide(x)
				} else {
					do.Forget()
				}
			})
		var calls atomic.Int32
		answers := keyedsingleton.MapAsync(decided, func(context.Context, string) string {
			calls.Add(1)
			return "answered"
		}, keyedsingleton.AsyncOptions{})
		out := dataflow.Output(keyedsingleton.Values(answers), "out")
		b.Start()
		return fmt.Sprint(sim.Collect(b.Sim, out), calls.Load())
	})
	if want := []string{"[] 0", "[] 1", "[answered] 1"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
