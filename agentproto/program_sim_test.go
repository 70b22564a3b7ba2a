package agentproto

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/sim"
)

// TestEverySchedule tries every order in which the inputs of one call can arrive, including
// its timers and the answer of its dispatch. In each order there is exactly one result, it is
// that of an input that can resolve the call, and every other terminal input is accounted for.
//
// The numbers count the orders in which the inputs can arrive. A call is put before its lifetime
// ends and before its dispatch fails. Deliveries come from several senders and are not ordered.
// A detour begins before its time is over. So two results, the call and its lifetime have 4!/2 = 12
// orders, and a result, the call, its lifetime and its failed dispatch have 4!/3 = 8. A closure after
// the call is one more input after it: 8 orders with a result and the lifetime. A closure before the
// call is applied when the call is put, which then has no lifetime: 2 orders. A call has one timer,
// which a detour resets: a call, an authorization, a result and the end of the current state have
// 4!/2 = 12 orders. An answer restarts the lifetime, so there is one more order if it arrives during
// the choice.
func TestEverySchedule(t *testing.T) {
	deliver := func(e Event) func(*sim.Sim, *Program) {
		return func(s *sim.Sim, p *Program) { s.Check(p.Deliver(s.Context(), k1, e)) }
	}
	closeThread := func(s *sim.Sim, p *Program) { s.Check(p.CloseThread(s.Context(), k1.GroupID)) }
	accepted, refused := DispatchOutcome{Accepted: true}, DispatchOutcome{Reason: "refused"}
	tests := []struct {
		name      string
		outcome   DispatchOutcome
		inputs    []func(*sim.Sim, *Program)
		schedules int
	}{
		{"two results", accepted, []func(*sim.Sim, *Program){deliver(result("a")), deliver(result("b"))}, 12},
		{"result, interruption", accepted, []func(*sim.Sim, *Program){deliver(result("a")), deliver(Event{Kind: Interrupted})}, 12},
		{"result, refused", refused, []func(*sim.Sim, *Program){deliver(result("a"))}, 8},
		{"result, closure", accepted, []func(*sim.Sim, *Program){deliver(result("a")), closeThread}, 10},
		{"oauth, result", accepted, []func(*sim.Sim, *Program){deliver(oauth("u")), deliver(result("a"))}, 12},
		{"choice, answer", accepted, []func(*sim.Sim, *Program){deliver(choice("r")), deliver(answer1("r", 1))}, 13},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			causes := make(map[Cause]bool)
			n := sim.Exhaustive(t, func(s *sim.Sim) {
				p := NewProgram(ProgramOptions{Flow: s.Flow(), Now: stopped, Dispatch: func(context.Context, *Call) DispatchOutcome { return test.outcome }})
				s.Check(p.Start(s.Context()))
				s.Check(p.Call(s.Context(), &Call{Key: k1, Invocation: &Invocation{GroupID: k1.GroupID, ID: k1.ID}}))
				for _, input := range test.inputs {
					input(s, p)
				}
				results := 0
				for _, e := range sim.Collect(s, effectsOf(p)) {
					if e.Kind == Resolve {
						results++
						causes[e.Resolution.Cause] = true
					}
				}
				if results != 1 {
					s.Errorf("%d results", results)
				}
				if _, err := p.Await(s.Context(), k1); err != nil {
					s.Errorf("the resolution: %v", err)
				}
			})
			if n != test.schedules {
				t.Errorf("%d schedules, want %d; resolved by %v", n, test.schedules, causes)
			}
		})
	}
}

// stopped is a constant clock for simulations, in which a program must not depend on the time.
func stopped() time.Time { return time.Unix(0, 0) }

// effectsOf reads the effects of a program.
func effectsOf(p *Program) effectReader { return effectReader{p} }

type effectReader struct{ p *Program }

func (r effectReader) Next(ctx context.Context) (Effect, error) { return r.p.NextEffect(ctx) }
