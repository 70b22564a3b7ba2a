package sim_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
)

// repeated returns all sequences that contain each of n elements at least once, with at most again repeats in total.
func repeated(n, again int) (all []string) {
	var add func(sofar []string, times []int, left int)
	add = func(sofar []string, times []int, left int) {
		if !slices.Contains(times, 0) {
			all = append(all, fmt.Sprint(sofar))
		}
		for i := range n {
			used := 0
			if times[i] > 0 {
				used = 1
			}
			if used > left {
				continue
			}
			more := slices.Clone(times)
			more[i]++
			add(append(slices.Clone(sofar), fmt.Sprint(i)), more, left-used)
		}
	}
	add(nil, make([]int, n), again)
	slices.Sort(all)
	return all
}

// TestRetry checks that records are repeated as often as the test says, each at every position, and that
// no other sequence is tried. It catches a leftover default limit, and a repeat that is not counted.
func TestRetry(t *testing.T) {
	for _, test := range []struct{ n, again, schedules int }{{2, 0, 2}, {2, 1, 8}, {1, 4, 5}, {2, 2, 22}, {3, 2, 192}} {
		got, want := make(map[string]bool), repeated(test.n, test.again)
		n := sim.Exhaustive(t, func(s *sim.Sim) {
			b := bench{s, dataflow.At[Server](s.Flow())}
			s.Retry(test.again)
			in, xs := dataflow.RetriedInput[int](b.at, "xs")
			for i := range test.n {
				s.Check(in.Send(s.Context(), i))
			}
			got[run(b, dataflow.Output(dataflow.AssumeOrder(dataflow.AssumeOnce(xs, tried), tried), "out"))] = true
		})
		if n != test.schedules || len(want) != test.schedules {
			t.Errorf("%+v: %d schedules, and %d sequences", test, n, len(want))
		}
		for _, w := range want {
			if !got[w] {
				t.Errorf("%+v: no schedule shows %s", test, w)
			}
		}
	}
}

// TestRetriesOfSpec has a counter that relies on receiving each record once. It fails at the third
// repeat, so only a specification with three retries finds it.
func TestRetriesOfSpec(t *testing.T) {
	type ports struct {
		in  *dataflow.SharedInputPort[int]
		out *dataflow.OutputPort[int]
	}
	spec := func(retries int) sim.Spec[ports] {
		return sim.Spec[ports]{
			Build: func(f *dataflow.Flow) ports {
				in, xs := dataflow.RetriedInput[int](dataflow.At[Server](f), "xs")
				return ports{in, dataflow.Output(dataflow.AssumeOnce(xs, tried), "out")}
			},
			Clients: []sim.Client[ports]{{Do: func(c *sim.Ctx, p ports) error { return p.in.Send(c, 1) }}},
			Eventually: map[string]func(*sim.View, ports) error{"at most three": func(v *sim.View, p ports) error {
				if all := sim.Elements(v, p.out); len(all) > 3 {
					return fmt.Errorf("%d came", len(all))
				}
				return nil
			}},
			Retries: retries, CallsShareNothing: true,
		}
	}
	for retries, fails := range []bool{false, false, false, true} {
		if _, err := sim.Check(context.Background(), spec(retries)); (err != nil) != fails {
			t.Errorf("%d retries: %v", retries, err)
		}
	}
	if _, err := sim.Check(context.Background(), spec(-1)); err == nil || !strings.Contains(err.Error(), "-1 retries") {
		t.Errorf("-1 retries: %v", err)
	}
}
