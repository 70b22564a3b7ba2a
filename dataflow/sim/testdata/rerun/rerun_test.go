// Package rerun_test has tests that fail. TestRerunLine runs them, and then the lines that
// they print.
package rerun_test

import (
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

type server struct{ dataflow.Process }

// together fails in the schedules in which one batch has both elements, so not in the first one.
func together(s *sim.Sim) {
	at := dataflow.At[server](s.Flow())
	in, xs := dataflow.Input[int](at, "xs")
	batch := slice.Batch(slice.At(at), xs, "either batch may have either element")
	list := dataflow.Fold(batch, func() []int { return nil }, func(acc *[]int, x int) { *acc = append(*acc, x) })
	batches := dataflow.Output(slice.Emit(singleton.IntoStream(list)), "batches")
	for x := range 2 {
		s.Check(in.Send(s.Context(), x))
	}
	in.Close()
	s.Start()
	if got := sim.Collect(s, batches); len(got) == 1 {
		s.Errorf("one batch: %v", got)
	}
}

// thrice fails in the schedules in which an element comes three times. Exhaustive does not try these.
func thrice(s *sim.Sim) {
	in, xs := dataflow.RetriedInput[int](dataflow.At[server](s.Flow()), "xs")
	out := dataflow.Output(dataflow.AssumeOrder(xs, "the order is not looked at"), "xs")
	s.Check(in.Send(s.Context(), 1))
	in.Close()
	s.Start()
	if got := sim.Collect(s, out); len(got) == 3 {
		s.Errorf("three times: %v", got)
	}
}

func TestSub(t *testing.T) {
	for _, name := range []string{"a (b) [c]", "a b c", "a (b) [c] d", "it's $1 | x/y*"} {
		t.Run(name, func(t *testing.T) {
			t.Logf("ran %q", name)
			sim.Exhaustive(t, together)
		})
	}
}

func TestChosen(t *testing.T) {
	t.Run("at random", func(t *testing.T) {
		t.Logf("ran %q", "at random")
		sim.Random(t, 100, thrice)
	})
}

func FuzzIt(f *testing.F) { sim.Fuzz(f, together) }
