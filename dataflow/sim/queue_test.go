package sim_test

import (
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/slice"
)

// TestQueue has a client send more records than may wait. It catches a client that is told that the
// flow is quiet instead of waiting for room, and a search that treats sending to a full queue as
// independent of taking from it.
func TestQueue(t *testing.T) {
	for _, test := range []struct{ queue, schedules, executions int }{
		// 3 records are cut into batches in 4 ways, even if only one can wait.
		{4096, 4, 4}, {2, 4, 16}, {1, 4, 17},
	} {
		batches := func(s *sim.Sim) {
			s.Queue(test.queue)
			at := dataflow.At[Server](s.Flow())
			in, xs := dataflow.Input[int](at, "xs")
			out := emit(list(slice.Batch(slice.At(at), xs, tried)))
			s.Start()
			for x := range 3 {
				s.Check(in.Send(s.Context(), x))
			}
			in.Close()
			s.Observe(sim.Collect(s, out))
		}
		n := sim.ExploreAs(t, sim.Exploring{}, batches)
		whole := sim.ExploreAs(t, sim.Exploring{Whole: true}, batches)
		if n.Schedules != test.schedules || n.Executions != test.executions || whole.Schedules != test.schedules || n.Failed+whole.Failed != "" {
			t.Errorf("%+v: %+v, %+v without the reduction", test, n, whole)
		}
	}
}

// TestManySent sends more records than may wait by default in production, singly and in batches.
func TestManySent(t *testing.T) {
	const many = 5000
	sim.Random(t, 2, func(s *sim.Sim) {
		in, xs := dataflow.Input[int](dataflow.At[Server](s.Flow()), "xs")
		out := dataflow.Output(xs, "out")
		s.Start()
		for x := range many {
			s.Check(in.Send(s.Context(), x))
		}
		_, err := in.SendBatch(s.Context(), make([]int, many))
		s.Check(err)
		in.Close()
		if got := sim.Collect(s, out); len(got) != 2*many {
			s.Errorf("%d of %d records have come", len(got), 2*many)
		}
	})
}
