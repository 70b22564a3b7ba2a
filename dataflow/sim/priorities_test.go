package sim_test

import (
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/slice"
)

// TestPriorities: schedules by priorities have a slice wait until all has come far more often than
// equal chances do, and at least as often as is promised. It catches priorities that are drawn
// anew for each move, and moments of change that are never reached.
func TestPriorities(t *testing.T) {
	const runs = 2000
	n := 0
	f := func(s *sim.Sim) {
		b := bench{s, dataflow.At[Server](s.Flow())}
		if run(b, emit(list(slice.Batch(slice.At(b.at), b.stream("xs", 1, 2, 3, 4, 5, 6, 7, 8), tried)))) == "[[1 2 3 4 5 6 7 8]]" {
			n++
		}
	}
	found := func(depth int) sim.Sampled {
		n = 0
		s := sim.Sample(t, runs, depth, f)
		s.Found = n
		return s
	}
	first, second := found(1), found(2)
	n = 0
	sim.Random(t, runs, f)
	uniform := n
	t.Logf("of %d runs %d with equal chances, %d by priorities, %d with one change: %+v", runs, uniform, first.Found, second.Found, second)
	for _, s := range []sim.Sampled{first, second} {
		if float64(s.Found) < s.Chance*runs || s.Chance <= 0 || s.Missed > 0.01 {
			t.Errorf("%+v: found less often than promised, or nothing is promised", s)
		}
	}
	if second.Found < 10*uniform || uniform == 0 {
		t.Errorf("%d of %d runs by priorities, %d with equal chances", second.Found, runs, uniform)
	}
	if second.Processes < 2 || second.Moves < 16 {
		t.Errorf("%+v: the program has a lane, a slice and 16 moves", second)
	}
}
