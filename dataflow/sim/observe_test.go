package sim_test

import (
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedstream"
)

// TestObservedByNobodyElse sends two elements, or two values of a key, in either order to an observer that
// may see the order but shows it to nothing else. It catches an observer that sees the same in both orders.
func TestObservedByNobodyElse(t *testing.T) {
	for name, f := range map[string]func(*sim.Sim){
		"elements": func(s *sim.Sim) {
			here := dataflow.At[Server](s.Flow())
			a, as := dataflow.Input[int](here, "as")
			b, bs := dataflow.Input[int](here, "bs")
			dataflow.AssumeOrder(dataflow.Merge(as, bs), tried)
			s.Start()
			s.Check(a.Send(s.Context(), 1))
			s.Check(b.Send(s.Context(), 2))
			s.Quiesce()
		},
		"values of a key": func(s *sim.Sim) {
			here := dataflow.At[Server](s.Flow())
			a, as := keyedstream.Input[int, int](here, "as")
			b, bs := keyedstream.Input[int, int](here, "bs")
			keyedstream.AssumeOrder(keyedstream.Merge(as, bs), tried)
			s.Start()
			s.Check(a.Send(s.Context(), 0, 1))
			s.Check(b.Send(s.Context(), 0, 2))
			s.Quiesce()
		},
	} {
		for _, whole := range []bool{false, true} {
			if n := sim.ExploreAs(t, sim.Exploring{Whole: whole}, f); n.Schedules != 2 || n.Failed != "" {
				t.Errorf("%s, without the reduction %v: %d schedules, want 2 %s", name, whole, n.Schedules, n.Failed)
			}
		}
	}
}
