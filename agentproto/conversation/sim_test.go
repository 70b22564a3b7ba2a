package conversation

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow/sim"
)

// A stage is a program of threads in a simulator. After a call is made, the test resolves it
// with an input that may arrive in any order.
type stage struct {
	s        *sim.Sim
	calls    *agentproto.Program
	threads  *Program
	reply    func(a *Action) *Reply
	resolved map[string]bool
	did      []ActionKind
}

func newStage(s *sim.Sim, reply func(a *Action) *Reply, limits Limits) *stage {
	st := &stage{s: s, reply: reply, resolved: map[string]bool{}}
	st.calls = agentproto.NewProgram(agentproto.ProgramOptions{Flow: s.Flow(), Dispatch: func(context.Context, *agentproto.Call) agentproto.DispatchOutcome {
		return agentproto.DispatchOutcome{Accepted: true}
	}})
	st.threads = NewProgram(st.calls, ProgramOptions{Do: st.do, Limits: limits})
	s.Check(st.calls.Start(s.Context()))
	st.tell(input{Kind: opened, Session: &Session{ID: "t"}, Text: "go"})
	return st
}

// do performs a thread's actions. A call is resolved by its result or by its cancellation,
// whichever is first.
func (st *stage) do(_ context.Context, _ string, a *Action) *Outcome {
	st.did = append(st.did, a.Kind)
	switch a.Kind {
	case Ask:
		return &Outcome{Reply: st.reply(a)}
	case MakeCall:
		st.resolve(a.Call.ID, agentproto.ByResult, "result of "+a.Call.ID)
	case CancelCall:
		st.resolve(a.Call.ID, agentproto.ByInterruption, "interrupted")
	}
	return &Outcome{}
}

func (st *stage) resolve(id string, cause agentproto.Cause, text string) {
	if !st.resolved[id] {
		st.resolved[id] = true
		st.post("resolution of "+id, input{Kind: resolved, Call: id, Resolution: &agentproto.Resolution{
			Cause: cause, Result: &agentproto.ToolResult{Text: &text},
		}})
	}
}

// post sends the thread an input that is unordered with others.
func (st *stage) post(token string, in input) {
	st.s.Check(st.threads.inputs.Send(st.s.Context(), "t", in))
}

// tell gives a thread an input without waiting for an answer.
func (st *stage) tell(in input) { st.s.Check(st.threads.inputs.Send(st.s.Context(), "t", in)) }

// history runs the flow until it is quiet and returns the messages that the models are shown.
func (st *stage) history() []Message {
	sim.Collect(st.s, effects{st.calls})
	var all []Message
	for n := 0; ; n++ {
		m, ok := st.threads.messages.Get(position{"t", n})
		if !ok {
			return all
		}
		all = append(all, m)
	}
}

type effects struct{ p *agentproto.Program }

func (e effects) Next(ctx context.Context) (agentproto.Effect, error) { return e.p.NextEffect(ctx) }

// check asserts what is true of every history: each call has one result, after the call and
// before any other speaker, in the order of the calls. It returns a short form of the history.
func check(s *sim.Sim, all []Message) string {
	var open []string
	var short []string
	for n, m := range all {
		if m.N != n {
			s.Errorf("message %d has the number %d", n, m.N)
		}
		switch m.Kind {
		case Result:
			if len(open) == 0 || open[0] != m.Result.ID {
				s.Errorf("message %d is a result of %q, waiting are %q", n, m.Result.ID, open)
				return ""
			}
			open = open[1:]
			short = append(short, m.Result.ID+":"+m.Result.Text())
		case User, Assistant, Closed:
			if len(open) > 0 {
				s.Errorf("message %d comes before the results of %q", n, open)
			}
			for _, c := range m.Calls {
				open = append(open, c.ID)
			}
			short = append(short, m.Kind.String()+":"+m.Text)
		}
	}
	if len(open) > 0 {
		s.Errorf("no result of %q", open)
	}
	return strings.Join(short, " ")
}

// with returns a model that makes calls and then answers with the number of messages.
func with(ids ...string) func(*Action) *Reply {
	return func(a *Action) *Reply {
		if a.Round > 1 {
			return &Reply{Text: fmt.Sprint(a.Messages)}
		}
		var r Reply
		for _, id := range ids {
			r.Calls = append(r.Calls, Call{ID: id, Name: "x"})
		}
		return &r
	}
}

// kept are limits under which threads are kept forever.
var kept = Limits{Retain: -1, Idle: -1}

// races are the user's possible actions while calls are pending.
var races = []struct {
	name      string
	then      func(st *stage)
	schedules int // with one call
	histories int // that differ
}{
	{"nothing", func(*stage) {}, 3, 1},
	{"interruption", func(st *stage) { st.tell(input{Kind: interrupted}) }, 33, 4},
	{"closure", func(st *stage) { st.tell(input{Kind: closed}) }, 58, 5},
	{"text", func(st *stage) { st.tell(input{Kind: said, Text: "no"}) }, 104, 5},
}

// TestEverySchedule tries every order in which a result, the model's answers and the user's
// action can arrive. The action may arrive even before the opening text, which comes with
// another request. The user acts first, while the call is pending, after its result, or after
// the model's last word: each gives its own history. A late or repeated reply would give more.
func TestEverySchedule(t *testing.T) {
	for _, race := range races {
		t.Run(race.name, func(t *testing.T) {
			histories := map[string]int{}
			n := sim.Exhaustive(t, func(s *sim.Sim) {
				st := newStage(s, with("a"), kept)
				race.then(st)
				histories[check(s, st.history())]++
			})
			if n != race.schedules || len(histories) != race.histories {
				t.Errorf("%d schedules and %d histories, want %d and %d: %v", n, len(histories), race.schedules, race.histories, histories)
			}
		})
	}
}

// TestEveryScheduleForgets is TestEverySchedule for a thread that is forgotten some time after
// it is closed: later inputs leave no state. A thread that is opened after the closure stays.
func TestEveryScheduleForgets(t *testing.T) {
	stays := 0
	n := sim.Exhaustive(t, func(s *sim.Sim) {
		st := newStage(s, with("a"), Limits{Idle: -1})
		st.tell(input{Kind: closed})
		all := st.history()
		check(s, all)
		switch {
		case len(all) > 0 && all[len(all)-1].Kind != Closed:
			stays++
		case st.threads.messages.Len() > 0:
			s.Errorf("%d messages of a thread that was forgotten are kept", st.threads.messages.Len())
		}
	})
	if n != 149 || stays == 0 {
		t.Errorf("%d schedules, want 149; in %d the thread was closed before it was opened", n, stays)
	}
}

// TestManySchedules is TestEverySchedule with three calls at once. It samples the orders,
// because there are too many to try all.
func TestManySchedules(t *testing.T) {
	for _, race := range races {
		t.Run(race.name, func(t *testing.T) {
			n := sim.Random(t, 200, func(s *sim.Sim) {
				st := newStage(s, with("a", "b", "c"), kept)
				race.then(st)
				check(s, st.history())
			})
			if n < 10 {
				t.Errorf("%d schedules that differ", n)
			}
		})
	}
}
