package agentproto

import (
	"context"
	"flag"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow/sim"
	"github.com/millrace/millrace/internal/long"
)

var schedulesOf = flag.Int("schedules.of", 2, "how many `inputs` besides its timers and its dispatch TestEveryInput gives to a call, at most")

// inputsByLetter names each input of a call by a letter.
var inputsByLetter = map[byte]func(s *sim.Sim, p *Program){
	'a': delivering(result("a")),
	'b': delivering(result("b")),
	'o': delivering(oauth("u")),
	'c': delivering(choice("r")),
	'x': delivering(Event{Kind: Interrupted}),
	'z': func(s *sim.Sim, p *Program) { s.Check(p.CloseThread(s.Context(), k1.GroupID)) },

	'O': delivering(oauth("v")),
	'C': delivering(choice("q")),
	'n': delivering(answer1("r", 1)),
	'd': delivering(answer1("r", 2)), // dismissed, which selects the default
	'f': delivering(Event{Kind: AnswerFailed, Detour: "r", Reason: "503"}),
	'm': delivering(Event{Kind: Malformed, Reason: "neither text nor content"}),
	'r': delivering(Event{Kind: Refused, Reason: "too many"}),
	'l': delivering(Event{Kind: CallLost, Reason: "gone"}),
	's': delivering(subscribed("s")),
	'e': delivering(news("e", "")),
	'i': delivering(news("i", "1")),
	'E': delivering(final("E")),
	'u': delivering(Event{Kind: SubscriptionCancelled}),
}

func delivering(e Event) func(*sim.Sim, *Program) {
	return func(s *sim.Sim, p *Program) { s.Check(p.Deliver(s.Context(), k1, e)) }
}

// sets returns the words of n different letters of an alphabet, in its order. Inputs from several senders
// have no order, so one word stands for all words with the same letters.
func sets(alphabet string, n int) (all []string) {
	if n == 0 {
		return []string{""}
	}
	for i := range len(alphabet) {
		for _, rest := range sets(alphabet[i+1:], n-1) {
			all = append(all, alphabet[i:i+1]+rest)
		}
	}
	return all
}

// A play is a set of inputs to one call, and the outcome of its dispatch.
type play struct {
	word    string
	outcome DispatchOutcome
	// outbox makes the program show prompts and deliver answers. When these calls return has no
	// effect, but it multiplies the schedules.
	outbox bool
}

// once runs the play in one schedule and reports errors: there is one result, each opened prompt
// is closed, prompts and answers were delivered, and each input either had an effect or was
// counted.
func (y play) once(s *sim.Sim) {
	prompts, answers := 0, 0
	opts := ProgramOptions{Flow: s.Flow(), Now: stopped, Dispatch: func(context.Context, *Call) DispatchOutcome { return y.outcome }}
	if y.outbox {
		opts.Prompt = func(context.Context, *Prompt) { prompts++ }
		opts.Answer = func(context.Context, *Answer) { answers++ }
	}
	p := NewProgram(opts)
	s.Check(p.Start(s.Context()))
	s.Check(p.Call(s.Context(), &Call{Key: k1, Invocation: &Invocation{GroupID: k1.GroupID, ID: k1.ID}}))
	for i := range len(y.word) {
		inputsByLetter[y.word[i]](s, p)
	}
	var a account
	for _, e := range sim.Collect(s, effectsOf(p)) {
		a.add(e)
	}
	// Closing a thread is not counted as an input of a call.
	a.check(func(format string, args ...any) { s.Errorf("%q: "+format, append([]any{y.word}, args...)...) }, len(y.word)-strings.Count(y.word, "z"))
	if y.outbox && (prompts != a.opened || answers != a.answered) {
		s.Errorf("%q: %d prompts of %d were shown, and %d answers of %d were delivered", y.word, prompts, a.opened, answers, a.answered)
	}
	if _, err := p.Await(s.Context(), k1); err != nil {
		s.Errorf("%q: the resolution: %v", y.word, err)
	}
}

// An account collects the effects of the inputs of one call.
type account struct {
	results, opened, answered int
	accounted                 int // inputs that had an effect, or were dropped
	open                      map[uint64]bool
	expired                   uint64 // the last detour that was withdrawn
	subscribed, final         bool   // final: the last event delivered was final
	wrong                     []string
}

func (a *account) add(e Effect) {
	if a.open == nil {
		a.open = make(map[uint64]bool)
	}
	switch e.Kind {
	case Resolve:
		a.results++
		a.subscribed = e.Resolution.Cause == ByResult && e.Resolution.Result.Subscription
		switch e.Resolution.Cause {
		case ByDispatch, ByTimeout, ByClosure:
		default:
			a.accounted++
		}
	case SurfaceOAuth, PromptChoice:
		a.opened++
		a.accounted++
		a.open[e.Number] = true
	case Withdraw:
		a.expired = e.Number
		a.close(e)
	case AnswerChoice:
		a.answered++
		if e.Number != a.expired { // otherwise it is the default, whose prompt was withdrawn
			a.accounted++
			a.close(e)
		}
	case DeliverEvent:
		a.accounted++
		if !a.subscribed || a.final {
			a.wrong = append(a.wrong, "an event of no subscription is delivered")
		}
		a.final = e.Subscription.Final
	case SubscriptionEnded:
		if e.Event == SubscriptionCancelled { // any other input that ends it delivers an event
			a.accounted++
		}
		if !a.subscribed {
			a.wrong = append(a.wrong, "no subscription ends")
		}
		a.subscribed = false
	case Drop:
		a.accounted++
	}
}

func (a *account) close(e Effect) {
	if !a.open[e.Number] {
		a.wrong = append(a.wrong, "a prompt that is not open is taken back")
	}
	delete(a.open, e.Number)
}

// check reports errors after the given number of inputs.
func (a *account) check(errorf func(string, ...any), given int) {
	if a.results != 1 {
		errorf("%d results", a.results)
	}
	if len(a.open) != 0 {
		errorf("%d prompts are left open", len(a.open))
	}
	if a.accounted != given {
		errorf("%d inputs of %d are accounted for", a.accounted, given)
	}
	if a.subscribed && a.final {
		errorf("the final event ended nothing")
	}
	for _, w := range a.wrong {
		errorf("%s", w)
	}
}

var outcomes = []DispatchOutcome{{Accepted: true}, {Reason: "refused"}}

// TestEveryInput tries every order of every choice of inputs (two results, an authorization,
// a choice, an interruption, the closure of the thread), with the timers of the call and the
// failure of its dispatch. By default a call has up to two of them: four inputs with its lifetime
// and its dispatch. With -schedules.of 3 it has five. Their number is not known, because time
// passes between any two of them.
func TestEveryInput(t *testing.T) {
	want := map[int]int{0: 3, 1: 108, 2: 765}
	for n := range *schedulesOf + 1 {
		schedules := 0
		for _, word := range sets("abocxz", n) {
			for _, outcome := range outcomes {
				schedules += sim.Exhaustive(t, play{word, outcome, n < 2}.once)
			}
		}
		t.Logf("%d inputs: %d schedules", n, schedules)
		if known, ok := want[n]; ok && schedules != known {
			t.Errorf("%d inputs: %d schedules, want %d", n, schedules, known)
		}
	}
}

// TestEverySubscription tries every order of the events of a subscription, its end and other inputs.
// The result that opens it races with the lifetime, and opens nothing if it comes second.
func TestEverySubscription(t *testing.T) {
	schedules := 0
	for _, word := range []string{"seEu", "sez", "siiE", "suz", "sa", "sx", "sl"} {
		schedules += sim.Exhaustive(t, play{word: word, outcome: outcomes[0]}.once)
	}
	if schedules != 668 {
		t.Errorf("%d schedules, want 668", schedules)
	}
}

// TestT02 checks case T02, a timer and a result at the same time, in every schedule; in long searches it also runs 10,000 seeds.
func TestT02(t *testing.T) {
	f := play{word: "ab", outcome: outcomes[0]}.once
	if n := sim.Exhaustive(t, f); n != 12 {
		t.Errorf("%d schedules, want 12", n)
	}
	if n := sim.Random(t, long.Of(1, 10_000), f); n != long.Of(1, 12) {
		t.Errorf("%d schedules, want 12", n)
	}
}

// FuzzSchedules plays inputs and a schedule that the fuzzer chooses. The first byte of the inputs
// selects the outcome of the dispatch, and whether there is an outbox.
func FuzzSchedules(f *testing.F) {
	const alphabet = "abocxzOCndfmrlseiEu"
	for _, word := range []string{"aobcxazoc", "cndCoO", "oOoOoOo", "seiiEeu", "sulm", "cfrz"} {
		inputs := []byte{byte(len(word))}
		for i := range len(word) {
			inputs = append(inputs, byte(strings.IndexByte(alphabet, word[i])))
		}
		f.Add(inputs, []byte{1, 0, 1, 2, 1})
	}
	f.Fuzz(func(t *testing.T, inputs, schedule []byte) {
		if len(inputs) == 0 || len(inputs) > 20 || len(schedule) > 100 {
			return
		}
		y := play{outbox: inputs[0]&4 != 0}
		y.outcome = []DispatchOutcome{{Accepted: true}, {Reason: "refused"}, {Ambiguous: true, Reason: "failed"}, {Accepted: true}}[inputs[0]%4]
		for _, b := range inputs[1:] {
			y.word += string(alphabet[int(b)%len(alphabet)])
		}
		choices := []string{"0"}
		for _, b := range schedule {
			choices = append(choices, strconv.Itoa(int(b)))
		}
		sim.Replay(t, strings.Join(choices, "."), y.once)
	})
}
