package sim_test

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/model"
)

var (
	flows    = flag.Int("flows", 100, "how many random flows are explored with and without the reduction")
	flowSeed = flag.Uint64("seed", 1, "seed of the random flows")
)

// loosens are the operators that give up the order of one input.
var loosens = []string{
	"dataflow.WeakenOrder", "keyedstream.WeakenOrder", "keyedstream.Join", "keyedstream.Entries", "keyedstream.Values",
	"keyedstream.Keys", "keyedsingleton.Entries", "keyedsingleton.Values", "keyedsingleton.Keys",
}

// TestRandomFlows explores random programs of all operators with the reduction and without it.
// It catches a move that touches something of which the simulator is not told, and a search that
// leaves out what could be seen. In every second program an operator that gives up an order is
// likely, and only the ends are looked at, since nothing waits of what is looked at before.
func TestRandomFlows(t *testing.T) {
	const most = 2000 // executions; a program that needs more is left out
	explore := func(p *model.Program, h model.History, early int, ends bool, how sim.Exploring) sim.Explored {
		how.Limit = most
		return sim.ExploreAs(t, how, func(s *sim.Sim) {
			got, err := model.Observe(s.Context(), p, h, early, ends, s.Flow(), func() { s.Start() }, s.Quiesce)
			s.Check(err)
			s.Observe(got)
		})
	}
	compared, schedules, few, many, wrong, waiting := 0, 0, 0, 0, 0, 0
	for n := 0; n < *flows && wrong < 5; n++ {
		rng := rand.New(rand.NewPCG(*flowSeed, uint64(n)))
		ends, likely := n%2 > 0, ""
		if ends {
			likely = loosens[n/2%len(loosens)]
		}
		p, h := model.MakeWith(rng, 2+rng.IntN(9), likely)
		h = h[:min(len(h), 2+rng.IntN(3))]
		early := rng.IntN(len(h) + 1)
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
		compared, schedules, few, many = compared+1, schedules+reduced.Schedules, few+reduced.Executions, many+whole.Executions
		if strings.Contains(p.String(), "After") { // After, AfterEach, ForgetAfter and others
			waiting++
		}
		if reduced.Schedules == whole.Schedules && whole.Failed == "" {
			continue
		}
		wrong++
		p, h = model.Shrink(p, h, differ)
		whole, reduced = explore(p, h, early, ends, sim.Exploring{Whole: true}), explore(p, h, early, ends, sim.Exploring{Workers: 2})
		t.Errorf("flow %d, made small:\n%s  sent: %v, %d before the start\n%+v without the reduction\n%+v with it\nrerun: go test ./dataflow/sim -run '^TestRandomFlows$' -seed %d -flows %d", n, p, h, early, whole, reduced, *flowSeed, n+1)
	}
	t.Logf("%d flows of %d, %d with timers: %d schedules in %d executions, %d without the reduction", compared, *flows, waiting, schedules, few, many)
	if *flows >= 100 && (compared < *flows/4 || schedules < 2*compared || many < 2*few || waiting == 0) {
		t.Errorf("only %d flows of %d are compared, %d with timers, with %d schedules", compared, *flows, waiting, schedules)
	}
}
