package sim_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/long"
	"github.com/millrace/millrace/internal/model"
)

var (
	flows    = flag.Int("flows", long.Of(12, 100), "how many random flows are explored with and without the reduction")
	flowSeed = flag.Uint64("seed", 1, "seed of the random flows")
)

// loosens lists the operators that give up the order of one input.
var loosens = []string{
	"dataflow.WeakenOrder", "keyedstream.WeakenOrder", "keyedstream.Join", "keyedstream.Entries", "keyedstream.Values",
	"keyedstream.Keys", "keyedsingleton.Entries", "keyedsingleton.Values", "keyedsingleton.Keys",
}

// timed lists operators that set timers.
var timed = []string{
	"keyedsingleton.After", "keyedsingleton.AfterEach", "keyedsingleton.ForgetAfter", "keyedsingleton.InputWithin",
	"keyedstream.FirstWithin", "keyedstream.FoldEarlyStopWithin", "dataflow.Interval",
}

// TestRandomFlows explores random programs of all operators with and without the reduction. It catches a move that touches
// something unknown to the simulator, and a search that omits an observable outcome. Two of three programs allow a fault: a
// crash, a late message, or a location that is cut off or stops for ever. Every fourth program is likely to have a timer. Every
// second program is likely to have an operator that gives up an order; there the test compares only the final results, because
// nothing waits for earlier ones.
func TestRandomFlows(t *testing.T) {
	const most = 2000 // executions; a program that needs more is left out
	var faults sim.Faults
	explore := func(p *model.Program, h model.History, early int, ends bool, how sim.Exploring) sim.Explored {
		how.Limit = most
		return sim.ExploreAs(t, how, func(s *sim.Sim) {
			s.Inject(faults)
			got, err := model.Observe(s.Context(), p, h, early, ends, s.Flow(), func() { s.Start() }, s.Quiesce)
			s.Check(err)
			s.Observe(got)
		})
	}
	withFaults := 0
	compared, schedules, few, many, wrong, waiting := 0, 0, 0, 0, 0, 0
	for n := 0; n < *flows && wrong < 5; n++ {
		rng := rand.New(rand.NewPCG(*flowSeed, uint64(n)))
		ends, likely := n%2 > 0, ""
		if ends {
			likely = loosens[n/2%len(loosens)]
		} else if n%4 == 0 {
			likely = timed[n/4%len(timed)]
		}
		p, h := model.MakeWith(rng, 2+rng.IntN(9), likely)
		h = h[:min(len(h), 2+rng.IntN(3))]
		early := rng.IntN(len(h) + 1)
		faults = [...]sim.Faults{{}, {}, {Crashes: 1}, {Delay: 1}, {Isolations: 1}, {Halts: 1}}[rng.IntN(6)]
		differ := func(p *model.Program, h model.History) bool {
			whole := explore(p, h, early, ends, sim.Exploring{Whole: true})
			reduced := explore(p, h, early, ends, sim.Exploring{Workers: 2})
			return whole.Complete && reduced.Complete && whole.Schedules != reduced.Schedules || whole.Failed != "" || reduced.Failed != ""
		}
		whole := explore(p, h, early, ends, sim.Exploring{Whole: true})
		if !whole.Complete || whole.Schedules < 2 && n%4 > 0 { // most show nothing of order
			continue
		}
		reduced := explore(p, h, early, ends, sim.Exploring{Workers: 2})
		if fmt.Sprint(faults) != fmt.Sprint(sim.Faults{}) {
			withFaults++
		}
		compared, schedules, few, many = compared+1, schedules+reduced.Schedules, few+reduced.Executions, many+whole.Executions
		if strings.Contains(p.String(), "After") || strings.Contains(p.String(), "Within") || p.Ticks() {
			waiting++
		}
		if reduced.Schedules == whole.Schedules && whole.Failed == "" {
			continue
		}
		wrong++
		p, h = model.Shrink(p, h, differ)
		whole, reduced = explore(p, h, early, ends, sim.Exploring{Whole: true}), explore(p, h, early, ends, sim.Exploring{Workers: 2})
		t.Errorf("flow %d with %+v, made small:\n%s  sent: %v, %d before the start\n%+v without the reduction\n%+v with it\nrerun: go test ./dataflow/sim -run '^TestRandomFlows$' -seed %d -flows %d", n, faults, p, h, early, whole, reduced, *flowSeed, n+1)
	}
	t.Logf("%d flows of %d, %d with timers, %d with faults: %d schedules in %d executions, %d without the reduction", compared, *flows, waiting, withFaults, schedules, few, many)
	if *flows >= 100 && (compared < *flows/4 || schedules < 2*compared || many < 2*few || waiting < *flows/50 || withFaults == 0) {
		t.Errorf("only %d flows of %d are compared, %d with timers, %d with faults, with %d schedules", compared, *flows, waiting, withFaults, schedules)
	}
}
