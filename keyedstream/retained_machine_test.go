package keyedstream_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// TestMachineOutput awaits decisions that are forgotten in the same turn.
func TestMachineOutput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		in, ks := keyedstream.Input[string, int](dataflow.At[Shop](flow), "values")
		_, decided := keyedstream.Machine(ks, zero, func(_ *int, v int, do *keyedstream.Turn[string, int, int]) {
			if v > 0 {
				do.Decide(v)
			}
			if v != 3 {
				do.Forget()
			}
		})
		var entries []int
		keyedstream.Inspect(keyedsingleton.IntoKeyedStream(decided), func(v int) { entries = append(entries, v) })
		out := keyedsingleton.Output(decided, "decided")
		app := starts(t, flow)
		got := make(chan string, 2)
		wait := func() {
			v, err := out.Await(t.Context(), "a")
			got <- fmt.Sprint(v, err)
		}
		go wait()
		synctest.Wait()
		in.Send(t.Context(), "a", 1)
		synctest.Wait()
		if x := <-got; x != "1<nil>" && x != "1 <nil>" {
			t.Errorf("awaited %s", x)
		}
		go wait()
		synctest.Wait()
		in.Send(t.Context(), "a", 0)
		synctest.Wait()
		if len(got) > 0 {
			t.Errorf("what was forgotten is there: %s", <-got)
		}
		in.Send(t.Context(), "a", 3)
		synctest.Wait()
		if x := <-got; x != "3<nil>" && x != "3 <nil>" {
			t.Errorf("awaited %s", x)
		}
		if out.Len() != 1 {
			t.Errorf("%d entries", out.Len())
		}
		in.Send(t.Context(), "a", 0)
		synctest.Wait()
		if out.Len() != 0 || !slices.Equal(entries, []int{1, 3}) {
			t.Errorf("%d entries after the end, %v came", out.Len(), entries)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}
