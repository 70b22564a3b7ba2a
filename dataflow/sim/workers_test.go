package sim_test

import (
	"errors"
	"fmt"
	"hash/crc32"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/slice"
)

// TestWorkers checks that any number of workers makes the same executions, finds the same schedules and
// reports the same failure. It catches a branch that starts before its sleep set is known, a branch
// found later that must be tried earlier, and a search that reports whichever failure comes first.
func TestWorkers(t *testing.T) {
	programs, failing := 0, 0
	for _, test := range countsTests() {
		if test.n < 8 {
			continue
		}
		programs++
		right := func(s *sim.Sim) { test.p(bench{s, dataflow.At[Server](s.Flow())}) }
		wrong := func(s *sim.Sim) {
			got := test.p(bench{s, dataflow.At[Server](s.Flow())})
			if crc32.ChecksumIEEE([]byte(got))%8 == 1 {
				s.Errorf("%s", got)
			}
		}
		one := sim.ExploreAs(t, sim.Exploring{Workers: 1}, right)
		failed := sim.ExploreAs(t, sim.Exploring{Workers: 1}, wrong).Failed
		if failed != "" {
			failing++
		}
		if one.Schedules != test.n {
			t.Errorf("%s: %d schedules, want %d", test.name, one.Schedules, test.n)
		}
		for _, workers := range []int{2, 8} {
			if got := sim.ExploreAs(t, sim.Exploring{Workers: workers}, right); got != one {
				t.Errorf("%s: %+v with %d workers, %+v with one", test.name, got, workers, one)
			}
			if got := sim.ExploreAs(t, sim.Exploring{Workers: workers}, wrong).Failed; got != failed {
				t.Errorf("%s: the schedule that fails is %q with %d workers, %q with one", test.name, got, workers, failed)
			}
		}
	}
	if programs < 12 || failing < 8 {
		t.Errorf("%d programs, of which %d fail", programs, failing)
	}
}

// TestWorkersAtOnce checks that two workers run the function at the same time. Otherwise the call
// that waits for another one would wait for ever, which the bubble reports.
func TestWorkersAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		both := make(chan bool)
		sim.ExploreAs(t, sim.Exploring{Workers: 2}, func(s *sim.Sim) {
			switch calls.Add(1) {
			case 1, 2: // the first execution, from which the others start, and its repetition
			case 3:
				<-both
			case 4:
				both <- true
			}
			b := bench{s, dataflow.At[Server](s.Flow())}
			run(b, emit(list(slice.Batch(slice.At(b.at), b.stream("xs", 1, 2, 3, 4), tried))))
		})
		if n := calls.Load(); n < 8 {
			t.Errorf("%d calls", n)
		}
	})
}

// TestWorkersPass checks that a panic of the function, and its end by runtime.Goexit, reach the caller
// from a worker too. Without that, a test would wait for ever or continue as if nothing had happened.
func TestWorkersPass(t *testing.T) {
	ended := func(f func(*sim.Sim)) (panicked any, returned bool) {
		var all sync.WaitGroup
		all.Go(func() {
			defer func() { panicked = recover() }()
			sim.ExploreAs(t, sim.Exploring{Workers: 3}, f)
			returned = true
		})
		all.Wait()
		return panicked, returned
	}
	if p, returned := ended(func(s *sim.Sim) { panic("lost") }); p != "lost" || returned {
		t.Errorf("panicked with %v, returned: %t", p, returned)
	}
	if p, returned := ended(func(s *sim.Sim) { runtime.Goexit() }); p != nil || returned {
		t.Errorf("panicked with %v, returned: %t", p, returned)
	}
	if p, returned := ended(func(s *sim.Sim) { s.Quiesce() }); p != nil || !returned {
		t.Errorf("panicked with %v, returned: %t", p, returned)
	}
}

// TestCheckWorkers checks that Check reports the same counts and the same failure with several workers.
func TestCheckWorkers(t *testing.T) {
	most := 0
	spec := sim.Spec[counted]{
		Build: buildCounted,
		Clients: []sim.Client[counted]{puts("one", 1, 2), puts("two", 3), {Name: "reader", Do: func(c *sim.Ctx, p counted) error {
			n, _ := p.count.Latest()
			c.Observe(n)
			return nil
		}}},
		Eventually: map[string]func(*sim.View, counted) error{"few": func(_ *sim.View, p counted) error {
			if n, _ := p.count.Latest(); n > most {
				return fmt.Errorf("%d", n)
			}
			return nil
		}},
	}
	var failed string
	for _, workers := range []int{1, 2, 8} {
		most = 3
		report, err := sim.Check(t.Context(), spec, sim.Workers(workers))
		if err != nil || !report.Complete || report.Schedules < 4 {
			t.Errorf("%d workers: %v\n%v", workers, err, report)
		}
		most = 2
		_, err = sim.Check(t.Context(), spec, sim.Workers(workers))
		var failure *sim.Failure
		if !errors.As(err, &failure) {
			t.Fatalf("%d workers: %v", workers, err)
		}
		if workers == 1 {
			failed = failure.Counterexample.Trace()
		}
		if got := failure.Counterexample.Trace(); got != failed {
			t.Errorf("with %d workers %s fails, with one %s", workers, got, failed)
		}
	}
	if _, err := sim.Check(t.Context(), spec, sim.Workers(0)); err == nil {
		t.Error("there may be no worker")
	}
}
