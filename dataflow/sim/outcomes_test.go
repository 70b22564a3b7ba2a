package sim_test

import (
	"context"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/long"
)

// A world is the environment of a program: production, or one schedule.
type world struct {
	flow  *dataflow.Flow
	ctx   context.Context
	start func()
	check func(error)
	sleep func(time.Duration) // in a function of the flow or a client; no schedule knows how long that takes

	// clients has n clients call first, and then each of them then. In production they run
	// concurrently. In a schedule one goroutine runs all of them: all call first before any calls then.
	clients func(n int, first, then func(i int))
}

// An outcomesTest compares the results that a program shows in production with those that the simulator finds.
type outcomesTest struct {
	name string
	p    func(w world) string

	simulated []string // the outcomes of all schedules
	// A production run has one of these results, or one of those in beside, each with the
	// simulator's gap that explains it. The numbers are those of the list in doc/testing-engine.md.
	beside map[string]string
	always bool // production always shows a result that is only in beside
	hangs  bool // the simulator reports that production hangs
}

// TestOutcomes runs programs in production, in a bubble, and checks that a schedule exists with the
// same result. It catches a rule of production that the simulator does not implement, and a listed
// gap of the simulator that has been closed.
func TestOutcomes(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, x := range outcomesTests() {
		t.Run(x.name, func(t *testing.T) {
			all := make(map[string]bool)
			explored := func(s *sim.Sim) {
				all[x.p(world{
					flow: s.Flow(), ctx: s.Context(), start: func() { s.Start() }, check: s.Check, sleep: func(time.Duration) {},
					clients: func(n int, first, then func(i int)) {
						for _, f := range []func(int){first, then} {
							for i := range n {
								f(i)
							}
						}
					},
				})] = true
			}
			if !x.hangs {
				sim.Exhaustive(t, explored)
			} else if len(sim.Hangs(t, explored)) == 0 {
				t.Error("the simulator does not say that production hangs")
			}
			if got := slices.Sorted(maps.Keys(all)); !slices.Equal(got, x.simulated) {
				t.Errorf("the simulator has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(x.simulated, "\n"))
			}
			for what, why := range x.beside {
				if all[what] {
					t.Errorf("%q is listed because of %s, and a schedule has it", what, why)
				}
			}
			runs := 40
			if x.hangs {
				runs = long.Of(2, runs) // each waits
			}
			for n := range runs {
				runtime.GOMAXPROCS(1 + n%2)
				got := x.produced(t)
				if _, listed := x.beside[got]; !all[got] && !listed || x.always && !listed {
					t.Fatalf("run %d of production shows %q: no schedule has that, and no reason is listed for it", n, got)
				}
			}
		})
	}
}

// produced runs the program once in production.
func (x outcomesTest) produced(t *testing.T) (got string) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.NewWithOptions(dataflow.Options{OnBlocked: func(*dataflow.BlockedError) {}})
		ctx := t.Context()
		var app *dataflow.App
		check := func(err error) {
			if err != nil {
				t.Error(err)
			}
		}
		got = x.p(world{
			flow: flow, ctx: ctx, check: check, sleep: time.Sleep,
			start: func() {
				var err error
				app, err = dataflow.Start(ctx, flow)
				check(err)
			},
			clients: func(n int, first, then func(i int)) {
				var all sync.WaitGroup
				for i := range n {
					all.Go(func() { first(i); then(i) })
				}
				all.Wait()
			},
		})
		ctx, cancel := context.WithTimeout(ctx, time.Hour) // Stop waits for calls, but not for an output that nobody reads
		defer cancel()
		_ = app.Stop(ctx)
	})
	return got
}

func words(all ...any) string { return strings.TrimSpace(fmt.Sprintln(all...)) }
