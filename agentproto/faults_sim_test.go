package agentproto

import (
	"context"
	"fmt"
	"testing"

	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/long"
)

// TestEveryCrash crashes the runtime once at any moment while several calls with inputs and lifetimes are
// pending. Each call has one result, and its inputs are accounted for. It was posted once, or twice if the
// crash came before the outcome of the first post was stored. The test catches a call that is posted again
// after its outcome was stored, and a result that is counted twice.
//
// For a single call, its start, its lifetime and two results arrive in 4!/2 = 12 orders, and one result in 3.
// Each may have been posted twice. Calls are independent, so the number for two calls is the product.
//
// The calls belong to threads of one session, so a crash affects all of them: see TestEverySessionCrash.
func TestEveryCrash(t *testing.T) {
	all := []crashes{{1, 2, 0, 12}, {1, 2, 1, 24}, {2, 0, 1, 4}, {2, 1, 1, 36}, {2, 2, 1, 576}, {3, 2, 1, 13_824}}
	everyCrash(t, func(i int) string { return InSession("session", fmt.Sprint(i)) }, all[:long.Of(4, len(all))])
}

// TestEverySessionCrash is TestEveryCrash for calls of different sessions. In several partitions, one may crash
// while another does not. This cannot be seen from outside, because a call may also have been posted once or twice
// in a crash of all partitions. So the number of schedules is the same.
func TestEverySessionCrash(t *testing.T) {
	everyCrash(t, func(i int) string { return fmt.Sprint("session ", i) }, []crashes{{1, 2, 1, 24}, {2, 0, 1, 4}, {2, 1, 1, 36}})
}

// crashes are calls with inputs, and the number of schedules with that many crashes.
type crashes struct{ calls, inputs, crashes, schedules int }

func everyCrash(t *testing.T, thread func(i int) string, tests []crashes) {
	for _, test := range tests {
		n := sim.Exhaustive(t, func(s *sim.Sim) {
			s.Inject(sim.Faults{Crashes: test.crashes})
			s.CallsShareNothing()
			posted := make([]int, test.calls)
			numbers := make(map[CallKey]int)
			p := NewProgram(ProgramOptions{Flow: s.Flow(), Now: stopped, Dispatch: func(_ context.Context, c *Call) DispatchOutcome {
				posted[numbers[c.Key]]++
				return DispatchOutcome{Accepted: true}
			}})
			s.Check(p.Start(s.Context()))
			for i := range test.calls {
				k := CallKey{GroupID: thread(i), ID: "call"}
				numbers[k] = i
				s.Check(p.Call(s.Context(), &Call{Key: k, Invocation: &Invocation{GroupID: k.GroupID, ID: k.ID}}))
				for j := range test.inputs {
					s.Check(p.Deliver(s.Context(), k, result(fmt.Sprint(j))))
				}
			}
			accounts := make([]account, test.calls)
			for _, e := range sim.Collect(s, effectsOf(p)) {
				accounts[numbers[e.Key]].add(e)
			}
			for i := range accounts {
				accounts[i].check(s.Errorf, test.inputs)
				if posted[i] < 1 || posted[i] > 1+test.crashes {
					s.Errorf("call %d was posted %d times", i, posted[i])
				}
			}
			s.Observe(posted)
		})
		if n != test.schedules {
			t.Errorf("%+v: %d schedules", test, n)
		}
	}
}
