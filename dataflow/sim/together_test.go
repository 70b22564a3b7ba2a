package sim_test

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedstream"
)

// TestTogether checks which records the search tries in one step: those of one key if the order per
// key is observed, and those of all keys if the order of all is observed. It catches a search that
// tries unrelated keys together, which doubles the cost for each key, and a search that omits a step
// of several records with a visible effect.
//
// An element and ten times its value take two paths to an observer of their order. For two elements
// the observer sees 1 10 2 20 if they arrive one by one, and 1 2 10 20 if they arrive together: 2
// schedules. Three elements are cut into steps in 4 ways. Two keys with two elements each have 2
// times 2. If the order of all is observed, the four elements that result from one element of each of
// two keys come in any of 4! orders.
func TestTogether(t *testing.T) {
	type sent struct{ key, value int }
	ofKeys := func(s *sim.Sim, all []sent) {
		in, xs := keyedstream.Input[int, int](dataflow.At[Server](s.Flow()), "xs")
		both := keyedstream.Merge(xs, keyedstream.Map(xs, func(x int) int { return 10 * x }))
		seen := keyedstream.Output(keyedstream.Scan(keyedstream.AssumeOrder(both, tried), func() string { return "" },
			func(sofar *string, x int, emit func(string)) { *sofar += fmt.Sprint(x, " "); emit(*sofar) }), "seen")
		s.Start()
		for _, x := range all {
			s.Check(in.Send(s.Context(), x.key, x.value))
		}
		s.Quiesce()
		last := make(map[int]string)
		for _, e := range sim.Collect(s, seen) {
			last[e.Key] = e.Value
		}
		s.Observe(last)
	}
	ofAll := func(s *sim.Sim, all []sent) {
		in, xs := keyedstream.Input[int, int](dataflow.At[Server](s.Flow()), "xs")
		both := keyedstream.Merge(xs, keyedstream.Map(xs, func(x int) int { return 10 * x }))
		seen := dataflow.Output(dataflow.AssumeOrder(keyedstream.Values(both), tried), "seen")
		s.Start()
		for _, x := range all {
			s.Check(in.Send(s.Context(), x.key, x.value))
		}
		s.Quiesce()
		s.Observe(sim.Collect(s, seen))
	}
	ofNobody := func(s *sim.Sim, all []sent) { // two inputs, and operators that remember nothing
		here := dataflow.At[Server](s.Flow())
		a, as := keyedstream.Input[int, int](here, "as")
		b, bs := keyedstream.Input[int, int](here, "bs")
		keyedstream.Map(keyedstream.Merge(as, bs), func(x int) int { return 10 * x })
		s.Start()
		for i, x := range all {
			in := a
			if i%2 == 1 {
				in = b
			}
			s.Check(in.Send(s.Context(), x.key, x.value))
		}
		s.Quiesce()
	}
	for _, test := range []struct {
		name                  string
		f                     func(*sim.Sim, []sent)
		all                   []sent
		schedules, executions int
	}{
		{"one key", ofKeys, []sent{{1, 1}, {1, 2}}, 2, 4},
		{"three of one key", ofKeys, []sent{{1, 1}, {1, 2}, {1, 3}}, 4, 12},
		{"four keys", ofKeys, []sent{{0, 1}, {1, 2}, {2, 3}, {3, 4}}, 1, 1},
		{"two keys of two", ofKeys, []sent{{0, 1}, {1, 2}, {0, 3}, {1, 4}}, 4, 10},
		{"one key, through what remembers nothing", ofNobody, []sent{{0, 1}, {0, 2}}, 1, 1},
		{"two keys whose order is seen", ofAll, []sent{{0, 1}, {1, 2}}, 24, 24},
	} {
		t.Run(test.name, func(t *testing.T) {
			explored := func(s *sim.Sim) { test.f(s, test.all) }
			n := sim.ExploreAs(t, sim.Exploring{}, explored)
			whole := sim.ExploreAs(t, sim.Exploring{Whole: true}, explored)
			t.Logf("%d schedules in %d executions, %d in %d without the reduction", n.Schedules, n.Executions, whole.Schedules, whole.Executions)
			if n.Schedules != test.schedules || n.Executions != test.executions || whole.Schedules != test.schedules || n.Failed+whole.Failed != "" {
				t.Errorf("%+v, %+v without the reduction, want %d schedules in %d executions", n, whole, test.schedules, test.executions)
			}
		})
	}
}
