package keyedstream_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestForgottenAndDecidedInOneStep removes an entry and adds it again in one step that changes nothing else at its
// output. It catches an output that is locked twice because a step changes it twice.
func TestForgottenAndDecidedInOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, ks := keyedstream.Input[string, bool](dataflow.At[Shop](flow), "values")
		type turn = keyedstream.Turn[string, struct{}, bool]
		_, decided := keyedstream.Machine(ks, func() int { return 0 }, func(_ *int, on bool, do *turn) {
			if do.Decide(on); !on {
				do.Forget()
			}
		})
		out := keyedsingleton.Output(decided, "entries")
		app := starts(t, flow)
		for _, values := range [][]bool{{true}, {false, true}, {false, true, false}, {true, false, true}} {
			if _, err := in.SendBatch(context.Background(), []string{"a", "a", "a"}[:len(values)], values); err != nil {
				t.Fatal(err)
			}
			if _, there := out.Get("a"); there != values[len(values)-1] {
				t.Errorf("after %v it is there: %v", values, there)
			}
		}
		in.Close()
		if err := app.Wait(); err != nil {
			t.Fatal(err)
		}
	})
}
