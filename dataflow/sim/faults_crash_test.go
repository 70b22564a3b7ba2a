package sim_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// calling makes some calls at a location and returns how often each was made.
func calling[L dataflow.Location](s *sim.Sim, at L, calls, concurrency int) string {
	in, asked := keyedsingleton.Input[int, int](at, "asked")
	made := make([]int, calls)
	answers := keyedsingleton.MapAsync(asked, func(_ context.Context, x int) int {
		made[x]++
		return x
	}, keyedsingleton.AsyncOptions{Concurrency: concurrency})
	out := keyedsingleton.Output(answers, "answers")
	s.Start()
	for i := range calls {
		s.Check(in.Put(s.Context(), i, i))
	}
	s.Quiesce()
	for i := range calls {
		if x, ok := out.Get(i); !ok || x != i {
			s.Errorf("the answer to call %d is %d, %v", i, x, ok)
		}
	}
	return strings.Trim(fmt.Sprint(made), "[]")
}

// TestCrashes counts how often calls are made when their location crashes. It catches a call that is
// not repeated, one that is repeated although its answer was stored, an answer that counts twice, and a
// crash that the reduction omits.
func TestCrashes(t *testing.T) {
	tests := []struct {
		calls, concurrency    int
		faults                sim.Faults
		schedules, executions int
		want                  string
	}{
		{1, 0, sim.Faults{}, 1, 1, "1"},
		{1, 0, sim.Faults{Crashes: 1}, 2, 2, "1,2"},
		{1, 0, sim.Faults{Crashes: 2}, 3, 3, "1,2,3"},
		{2, 0, sim.Faults{Crashes: 1}, 4, 20, "1 1,1 2,2 1,2 2"},
		{2, 1, sim.Faults{Crashes: 1}, 4, 27, "1 1,1 2,2 1,2 2"},
		{2, 0, sim.Faults{Crashes: 1, Locations: []string{"Client"}}, 1, 2, "1 1"},
	}
	for _, test := range tests {
		schedules, executions, got := explored(t, func(s *sim.Sim) string {
			s.Inject(test.faults)
			s.CallsShareNothing()
			dataflow.At[Client](s.Flow())
			return calling(s, dataflow.At[Server](s.Flow()), test.calls, test.concurrency)
		})
		wantsAll(t, schedules, executions, []string{strings.Join(got, ",")}, test.schedules, test.executions, test.want)
	}
}

// Partitioned is a location whose keys are divided.
type Partitioned struct{ dataflow.Cluster }

// TestPartitionCrashes checks that a crash of a partition repeats its calls only. A call of another
// partition is not repeated, although it is still running when the first call has its answer.
func TestPartitionCrashes(t *testing.T) {
	found := func(cluster bool) []string {
		_, _, got := explored(t, func(s *sim.Sim) string {
			s.Inject(sim.Faults{Crashes: 1})
			if cluster {
				return ordering(s, dataflow.At[Partitioned](s.Flow()))
			}
			return ordering(s, dataflow.At[Server](s.Flow()))
		})
		return got
	}
	one, divided := found(false), found(true)
	const alone = "b a a, and then b has no answer"
	if slices.Contains(one, alone) || !slices.Contains(divided, alone) {
		t.Errorf("one history: %q\npartitions: %q", one, divided)
	}
	for _, got := range one {
		if !slices.Contains(divided, got) {
			t.Errorf("%q happens to one history only", got)
		}
	}
}

// ordering makes two calls that write to shared state.
func ordering[L dataflow.Location](s *sim.Sim, at L) string {
	in, asked := keyedsingleton.Input[string, string](at, "asked")
	var made []string
	answers := keyedsingleton.MapAsync(asked, func(_ context.Context, x string) string {
		made = append(made, x)
		return x
	}, keyedsingleton.AsyncOptions{})
	out := keyedsingleton.Output(answers, "answers")
	s.Start()
	s.Check(in.Put(s.Context(), "a", "a"))
	s.Check(in.Put(s.Context(), "b", "b"))
	_, err := out.Await(s.Context(), "a")
	s.Check(err)
	got := ""
	if _, ok := out.Get("b"); !ok {
		got = ", and then b has no answer"
	}
	s.Quiesce()
	return strings.Join(made, " ") + got
}

// TestLostAcks checks that a sender without an answer sends again. A stored entry is then refused, a
// numbered element is taken once, and an unnumbered one twice.
func TestLostAcks(t *testing.T) {
	schedules, executions, got := explored(t, func(s *sim.Sim) string {
		s.Inject(sim.Faults{LostAcks: 1})
		at := dataflow.At[Server](s.Flow())
		in, asked := keyedsingleton.Input[int, int](at, "entries")
		entries := keyedsingleton.Output(asked, "there")
		numbers, numbered := dataflow.Input[int](at, "numbers")
		plains, plain := dataflow.Input[int](at, "plain")
		one, two := dataflow.Output(numbered, "numbered"), dataflow.Output(plain, "twice")
		s.Start()
		var said []string
		try := func(send func() error) {
			err := send()
			if errors.Is(err, sim.ErrUnknown) {
				said = append(said, "?")
				err = send()
			}
			if errors.Is(err, dataflow.ErrDuplicateKey) {
				said = append(said, "duplicate")
				err = nil
			}
			s.Check(err)
		}
		try(func() error { return in.Put(s.Context(), 1, 1) })
		try(func() error { return numbers.SendNumbered(s.Context(), 0, 2) })
		try(func() error { return plains.Send(s.Context(), 3) })
		s.Quiesce()
		if _, ok := entries.Get(1); !ok {
			s.Errorf("the entry is not there")
		}
		return fmt.Sprint(said, sim.Collect(s, one), sim.Collect(s, two))
	})
	wantsAll(t, schedules, executions, got, 4, 7, "[? duplicate] [2] [3] [?] [2] [3 3] [?] [2] [3] [] [2] [3]")
}

// TestCallsWithInputs counts programs shaped like a protocol: each call has two inputs and a deadline,
// and the first of the three wins; a location may crash. The inputs are unordered, so two inputs and
// the deadline have 3! orders. A crash repeats each call that is running. Each call therefore has 6
// ways to be won and 2 ways to be made.
func TestCallsWithInputs(t *testing.T) {
	for _, test := range []struct{ calls, inputs, crashes, schedules, most int }{
		{1, 2, 0, 6, 8}, {1, 2, 1, 12, 14},
		{2, 2, 0, 36, 156}, {2, 2, 1, 144, 752},
		{3, 0, 0, 1, 30}, {3, 1, 0, 8, 252},
	} {
		schedules, executions := sim.Explore(t, func(s *sim.Sim) {
			s.Inject(sim.Faults{Crashes: test.crashes})
			s.CallsShareNothing()
			callsWithInputs(s, test.calls, test.inputs)
		}, false)
		if schedules != test.schedules || executions > test.most {
			t.Errorf("%+v: %d schedules in %d executions", test, schedules, executions)
		}
	}
}

func callsWithInputs(s *sim.Sim, calls, inputs int) {
	at := dataflow.At[Server](s.Flow())
	in, started := keyedsingleton.Input[int, int](at, "calls")
	events, arrived := keyedstream.Input[int, string](at, "events")
	made := make([]int, calls)
	keyedsingleton.Output(keyedsingleton.MapAsync(started, func(_ context.Context, x int) int {
		made[x]++
		return x
	}, keyedsingleton.AsyncOptions{}), "dispatched")
	expired := keyedsingleton.AfterEach(started, func(int) time.Duration { return time.Minute }, tried)
	over := keyedsingleton.IntoKeyedStream(keyedsingleton.Map(expired, func(int) string { return "expired" }))
	all := keyedstream.AssumeOrder(keyedstream.Merge(keyedstream.WeakenOrder(arrived), over), tried)
	won := keyedsingleton.Output(keyedstream.First(all), "won")
	s.Start()
	for k := range calls {
		s.Check(in.Put(s.Context(), k, k))
		for i := range inputs {
			s.Check(events.Send(s.Context(), k, fmt.Sprint(i)))
		}
	}
	s.Quiesce()
	for k := range calls {
		if _, ok := won.Get(k); !ok || made[k] < 1 || made[k] > 2 {
			s.Errorf("call %d was made %d times", k, made[k])
		}
	}
	s.Observe(made)
}
