package agentproto

import (
	"context"
	"flag"
	"testing"

	"github.com/millrace/millrace/dataflow/sim"
)

var schedulesOf = flag.Int("schedules.of", 2, "how many `inputs` besides its timers and its dispatch TestEveryInput gives to a call, at most")

// What can be given to a call, by a letter each.
var inputsByLetter = map[byte]func(s *sim.Sim, p *Program){
	'a': delivering(result("a")),
	'b': delivering(result("b")),
	'o': delivering(oauth("u")),
	'c': delivering(choice("r")),
	'x': delivering(Event{Kind: Interrupted}),
	'z': func(s *sim.Sim, p *Program) { s.Check(p.CloseThread(s.Context(), k1.GroupID)) },
}

func delivering(e Event) func(*sim.Sim, *Program) {
	return func(s *sim.Sim, p *Program) { s.Check(p.Deliver(s.Context(), k1, e)) }
}

// sequences returns the words of n different letters, in every order.
func sequences(n int) (all []string) {
	if n == 0 {
		return []string{""}
	}
	for _, word := range sequences(n - 1) {
	next:
		for _, letter := range []byte("abocxz") {
			for i := range len(word) {
				if word[i] == letter {
					continue next
				}
			}
			all = append(all, word+string(letter))
		}
	}
	return all
}

// playOne gives a call the inputs of a word, and says what is wrong with what came of it:
// there is one result, each prompt that was opened is over, and each input either had an
// effect or was counted.
func playOne(s *sim.Sim, word string, outcome DispatchOutcome) {
	p := NewProgram(ProgramOptions{
		Flow: s.Flow(), Now: stopped,
		Dispatch: func(context.Context, *Call) DispatchOutcome { return outcome },
		Prompt:   func(context.Context, *Prompt) {},
		Answer:   func(context.Context, *Answer) {},
	})
	s.Check(p.Start(s.Context()))
	s.Check(p.Call(s.Context(), &Call{Key: k1, Invocation: &Invocation{GroupID: k1.GroupID, ID: k1.ID}}))
	given := 0
	for i := range len(word) {
		inputsByLetter[word[i]](s, p)
		if word[i] != 'z' { // closing a thread that has no open calls is no input of one
			given++
		}
	}
	results, counted := 0, 0
	open := map[uint64]bool{}
	for _, e := range sim.Collect(s, effectsOf(p)) {
		switch e.Kind {
		case Resolve:
			results++
			if c := e.Resolution.Cause; c == ByResult || c == ByInterruption {
				counted++
			}
		case SurfaceOAuth, PromptChoice:
			open[e.Number] = true
			counted++
		case Withdraw, AnswerChoice:
			delete(open, e.Number)
		case Drop:
			counted++
		}
	}
	if results != 1 {
		s.Errorf("%q: %d results", word, results)
	}
	if len(open) != 0 {
		s.Errorf("%q: %d prompts are left open", word, len(open))
	}
	if counted != given {
		s.Errorf("%q: %d inputs of %d are accounted for", word, counted, given)
	}
	if _, err := p.Await(s.Context(), k1); err != nil {
		s.Errorf("%q: the resolution: %v", word, err)
	}
}

// TestEveryInput tries every order of every choice of inputs (two results, an authorization,
// a choice, an interruption, the closure of the thread) with the timers of the call and
// the failure of its dispatch among them. By default a call has up to two of them, four
// inputs with its lifetime and its dispatch; -schedules.of 3 is five.
func TestEveryInput(t *testing.T) {
	want := map[int]int{0: 3, 1: 85, 2: 1958}
	for n := range *schedulesOf + 1 {
		schedules := 0
		for _, word := range sequences(n) {
			for _, outcome := range []DispatchOutcome{{Accepted: true}, {Reason: "refused"}} {
				schedules += sim.Exhaustive(t, func(s *sim.Sim) { playOne(s, word, outcome) })
			}
		}
		t.Logf("%d inputs: %d schedules", n, schedules)
		if n, known := want[n]; known && schedules != n {
			t.Errorf("%d schedules, want %d", schedules, n)
		}
	}
}

// TestT02 is case T02: the timer and the result fall together, in schedules of 10,000 seeds.
func TestT02(t *testing.T) {
	n := sim.Random(t, 10_000, func(s *sim.Sim) { playOne(s, "ab", DispatchOutcome{Accepted: true}) })
	if n != 6 {
		t.Errorf("%d schedules, want 6", n)
	}
}

// FuzzSchedules gives a call sequences of any length, in schedules that the fuzzer chooses.
func FuzzSchedules(f *testing.F) {
	sim.Fuzz(f, func(s *sim.Sim) { playOne(s, "aobcxazoc", DispatchOutcome{Ambiguous: true, Reason: "failed"}) })
}
