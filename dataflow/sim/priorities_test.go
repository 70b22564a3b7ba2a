package sim_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/slice"
)

// TestPriorities checks that with priorities a slice waits for all records far more often than with
// equal chances, and at least as often as promised. It catches priorities that are drawn again for
// each move, and priority changes that are never reached.
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

// TestByPriority checks that a check by priority finds that a slice can wait until all of 12 records
// have arrived. Equal chances find this in none of as many schedules. If nothing is wrong, the
// report says how likely it is that something was missed. It catches an option that changes nothing.
func TestByPriority(t *testing.T) {
	type ports struct {
		in  *dataflow.InputPort[int]
		out *dataflow.OutputPort[[]int]
	}
	spec := func(most int) sim.Spec[ports] {
		return sim.Spec[ports]{
			Build: func(f *dataflow.Flow) (p ports) {
				at := dataflow.At[Server](f)
				in, xs := dataflow.Input[int](at, "xs")
				return ports{in, emit(list(slice.Batch(slice.At(at), xs, tried)))}
			},
			Clients: []sim.Client[ports]{{Name: "sender", Do: func(c *sim.Ctx, p ports) error {
				defer p.in.Close()
				for x := range 12 {
					if err := p.in.Send(c, x); err != nil {
						return err
					}
				}
				return nil
			}}, {Name: "reader", Do: func(c *sim.Ctx, p ports) error {
				for batch := range p.out.All(c) {
					if len(batch) > most {
						return fmt.Errorf("a batch of %d", len(batch))
					}
				}
				return nil
			}}},
		}
	}
	const runs = 100
	if _, err := sim.Check(t.Context(), spec(11), sim.AtRandom(runs, 1)); err != nil {
		t.Errorf("with equal chances: %v", err)
	}
	var failure *sim.Failure
	if _, err := sim.Check(t.Context(), spec(11), sim.AtRandom(runs, 1), sim.ByPriority(2)); !errors.As(err, &failure) {
		t.Errorf("by priority: %v", err)
	}
	report, err := sim.Check(t.Context(), spec(12), sim.AtRandom(runs, 1), sim.ByPriority(1))
	if err != nil || report.Missed <= 0 || report.Missed > 0.01 || !strings.Contains(report.String(), "a bug that needs 1 orderings was missed with a chance of at most") {
		t.Errorf("%v: %v", err, report)
	}
}
