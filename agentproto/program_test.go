package agentproto

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
)

// A host is a runtime without HTTP. It records the effects of the program.
type host struct {
	*Program
	t       *testing.T
	mu      sync.Mutex
	effects []Effect
	drained chan struct{} // closed when the effects have ended with the error ended
	ended   error
}

// startProgram runs a program in a bubble, in which time is virtual. It forgets calls that are over, as runtimes do, but
// after a time that only tests of that reach. The programs of simulations do not forget.
func startProgram(t *testing.T, opts ProgramOptions, build ...func(*Program)) *host {
	t.Helper()
	if opts.Dispatch == nil {
		opts.Dispatch = func(context.Context, *Call) DispatchOutcome { return DispatchOutcome{Accepted: true} }
	}
	opts.Retain = max(0, cmp.Or(opts.Retain, 10_000*time.Hour))
	h := &host{Program: NewProgram(opts), t: t, drained: make(chan struct{})}
	for _, on := range build {
		on(h.Program)
	}
	if err := h.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(h.drained)
		for {
			e, err := h.NextEffect(context.Background())
			if err != nil {
				h.ended = err
				return
			}
			h.mu.Lock()
			h.effects = append(h.effects, e)
			h.mu.Unlock()
		}
	}()
	return h
}

func (h *host) stop() {
	h.t.Helper()
	if err := h.Stop(context.Background()); err != nil {
		h.t.Fatal(err)
	}
	if <-h.drained; h.ended != io.EOF {
		h.t.Errorf("the effects ended with %v", h.ended)
	}
}

func (h *host) call(key CallKey, change func(*Call)) {
	h.t.Helper()
	c := &Call{Key: key, Invocation: &Invocation{GroupID: key.GroupID, ID: key.ID, Operation: "op"}}
	if change != nil {
		change(c)
	}
	if err := h.Call(context.Background(), c); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) deliver(key CallKey, e Event) {
	h.t.Helper()
	if err := h.Deliver(context.Background(), key, e); err != nil {
		h.t.Fatal(err)
	}
}

// story returns the effects on a call in order, one word each.
func (h *host) story(key CallKey) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var words []string
	for _, e := range h.effects {
		if e.Key != key {
			continue
		}
		switch e.Kind {
		case Resolve:
			words = append(words, "resolved("+e.Resolution.Cause.String()+")")
		case SurfaceOAuth:
			words = append(words, "oauth")
		case PromptChoice:
			words = append(words, "choice")
		case Withdraw:
			words = append(words, "withdraw")
		case AnswerChoice:
			words = append(words, fmt.Sprintf("answer(%d)", e.Selected))
		case CancelCall:
			words = append(words, "cancel")
		case Drop:
			words = append(words, "dropped("+e.Dropped.String()+")")
		case DeliverEvent:
			words = append(words, "event("+e.Subscription.Text+")")
		case SubscriptionEnded:
			words = append(words, "ended")
		case Departed:
			words = append(words, "departed")
		}
	}
	return strings.Join(words, " ")
}

var k1 = CallKey{"thread", "1"}

func text(s string) *ToolResult { return &ToolResult{GroupID: "thread", ID: "1", Text: &s} }

func result(s string) Event { return Event{Kind: ResultArrived, Result: text(s)} }

func subscribed(s string) Event {
	r := text(s)
	r.Subscription = true
	return Event{Kind: ResultArrived, Result: r}
}

// news returns an event of a subscription. The message ID is optional.
func news(s, messageID string) Event {
	return Event{Kind: SubscriptionEventArrived, Subscription: &SubscriptionEvent{GroupID: "thread", ToolCallID: "1", Text: s}, MessageID: messageID}
}

func final(s string) Event {
	e := news(s, "")
	e.Subscription.Final = true
	return e
}

func oauth(url string) Event {
	return Event{Kind: OAuthArrived, OAuth: &OAuth{GroupID: "thread", ID: "1", AuthURL: url}}
}

func choice(url string) Event {
	return Event{Kind: ChoiceArrived, Choice: &UserChoice{GroupID: "thread", ID: "1", Prompt: "?", Choices: []string{"a", "b", "c"}, Default: 2, ResponseURL: url}}
}

func answer1(url string, selected int) Event {
	return Event{Kind: ChoiceAnswered, Detour: url, Selected: selected}
}

func later(d time.Duration) func(*host) {
	return func(*host) { time.Sleep(d); synctest.Wait() }
}

// TestStateMachine plays the rows of the state machine of doc/protocol.md §6.2.
func TestStateMachine(t *testing.T) {
	send := func(e Event) func(*host) { return func(h *host) { h.deliver(k1, e) } }
	start := func(change func(*Call)) func(*host) { return func(h *host) { h.call(k1, change) } }
	closeThread := func(h *host) {
		if err := h.CloseThread(context.Background(), "thread"); err != nil {
			h.t.Fatal(err)
		}
	}
	put := start(nil)
	tests := []struct {
		name string
		do   []func(*host)
		want string
	}{
		{"R01 a result resolves", []func(*host){put, send(result("x"))}, "resolved(tool_result)"},
		{"R06 a repeated result is dropped", []func(*host){put, send(result("x")), send(result("x"))}, "resolved(tool_result) dropped(duplicate)"},
		{"R07 a second result is dropped", []func(*host){put, send(result("x")), send(result("y"))}, "resolved(tool_result) dropped(duplicate)"},
		{"R09 nothing for an unknown call", []func(*host){send(result("x"))}, "dropped(late)"},
		{"R05 a malformed result resolves", []func(*host){put, send(Event{Kind: Malformed, Reason: "neither text nor content"})}, "resolved(malformed)"},
		{"I04 a rejected call", []func(*host){start(func(c *Call) { c.Rejected = "no such tool" })}, "resolved(rejected)"},
		{"O01 O05 oauth, then the result", []func(*host){put, send(oauth("u1")), send(result("x"))}, "oauth withdraw resolved(tool_result)"},
		{"O03 the same oauth again", []func(*host){put, send(oauth("u1")), send(oauth("u1"))}, "oauth dropped(repeated)"},
		{"O03 another oauth replaces", []func(*host){put, send(oauth("u1")), send(oauth("u2")), send(result("x"))}, "oauth withdraw oauth withdraw resolved(tool_result)"},
		{"O04 oauth after the result", []func(*host){put, send(result("x")), send(oauth("u1"))}, "resolved(tool_result) dropped(late)"},
		{"O06 the user never authorizes", []func(*host){put, send(oauth("u1")), later(DefaultOAuthTimeout)}, "oauth withdraw resolved(timed out) cancel"},
		{"O06 the timer of a replaced oauth does nothing", []func(*host){put, send(oauth("u1")), later(time.Minute), send(oauth("u2")), later(DefaultOAuthTimeout - time.Minute)}, "oauth withdraw oauth"},
		{"too many detours", []func(*host){put, send(oauth("1")), send(oauth("2")), send(oauth("3")), send(oauth("4")), send(oauth("5")), send(oauth("6"))},
			"oauth withdraw oauth withdraw oauth withdraw oauth withdraw oauth withdraw resolved(malformed) cancel"},
		{"U01 a choice is answered once", []func(*host){put, send(choice("r")), send(answer1("r", 1)), send(answer1("r", 0)), send(result("x"))}, "choice answer(1) dropped(repeated) resolved(tool_result)"},
		{"U02 an unanswered choice takes its default", []func(*host){put, send(choice("r")), later(DefaultChoiceTimeout)}, "choice withdraw answer(2)"},
		{"an answer out of range", []func(*host){put, send(choice("r")), send(answer1("r", 3))}, "choice dropped(repeated)"},
		{"an answer below the range", []func(*host){put, send(choice("r")), send(answer1("r", -1)), send(answer1("r", -2)), send(answer1("r", 0))}, "choice dropped(repeated) dropped(repeated) answer(0)"},
		{"the lifetime stands still in a choice", []func(*host){put, send(choice("r")), later(DefaultLifetime + time.Hour)}, "choice"},
		{"the lifetime starts again after the answer", []func(*host){put, later(time.Minute), send(choice("r")), later(time.Hour), send(answer1("r", 0)), later(DefaultLifetime - 1), send(Event{Kind: ChoiceAnswered, Detour: "r"}), later(1)},
			"choice answer(0) dropped(repeated) resolved(timed out) cancel"},
		{"the lifetime starts again after the default", []func(*host){put, send(choice("r")), later(DefaultChoiceTimeout), later(DefaultLifetime)}, "choice withdraw answer(2) resolved(timed out) cancel"},
		{"a choice at an address used before has its own timer", []func(*host){put, send(choice("r")), send(answer1("r", 0)), later(10 * time.Minute), send(choice("r")), later(10 * time.Minute), send(answer1("r", 1)), later(DefaultLifetime)},
			"choice answer(0) choice answer(1) resolved(timed out) cancel"},
		{"an authorization at an address used before has its own timer", []func(*host){put, send(oauth("a")), later(9 * time.Minute), send(oauth("b")), later(9 * time.Minute), send(oauth("a")), later(DefaultOAuthTimeout)},
			"oauth withdraw oauth withdraw oauth withdraw resolved(timed out) cancel"},
		{"the lifetime after the answer is the event's", []func(*host){put, send(choice("r")), send(Event{Kind: ChoiceAnswered, Detour: "r", Lifetime: time.Second}), later(time.Second)}, "choice answer(0) resolved(timed out) cancel"},
		{"the lifetime after the default is the event's", []func(*host){put, send(Event{Kind: ChoiceArrived, Choice: choice("r").Choice, Timeout: time.Second, Lifetime: time.Minute}), later(time.Second), later(time.Minute)}, "choice withdraw answer(2) resolved(timed out) cancel"},
		{"U04 the answer cannot be delivered", []func(*host){put, send(choice("r")), send(answer1("r", 1)), send(Event{Kind: AnswerFailed, Detour: "r", Reason: "404"})}, "choice answer(1) resolved(answer failed)"},
		{"U07 interrupted while a choice is open", []func(*host){put, send(choice("r")), send(Event{Kind: Interrupted}), send(answer1("r", 1))}, "choice withdraw resolved(interrupted) cancel dropped(late)"},
		{"K01 interrupted", []func(*host){put, send(Event{Kind: Interrupted}), send(result("x"))}, "resolved(interrupted) cancel dropped(late)"},
		{"X03 thread closed", []func(*host){put, closeThread, send(result("x")), closeThread}, "resolved(thread closed) dropped(late)"},
		{"X02 a call of a closed thread", []func(*host){closeThread, put}, "resolved(thread closed)"},
		{"T01 the lifetime ends", []func(*host){put, later(DefaultLifetime), send(result("x"))}, "resolved(timed out) cancel dropped(late)"},
		{"S01 S03 a subscription until its final event", []func(*host){put, send(subscribed("x")), send(news("a", "")), send(final("b")), send(news("c", ""))},
			"resolved(tool_result) event(a) event(b) ended dropped(unsubscribed)"},
		{"S04 an event before the result, of a plain call, of none", []func(*host){send(news("a", "")), put, send(news("b", "")), send(result("x")), send(news("c", ""))},
			"dropped(unsubscribed) dropped(unsubscribed) resolved(tool_result) dropped(unsubscribed)"},
		{"S06 cancelled", []func(*host){put, send(subscribed("x")), send(Event{Kind: SubscriptionCancelled}), send(news("a", "")), send(Event{Kind: SubscriptionCancelled})},
			"resolved(tool_result) ended cancel dropped(unsubscribed) dropped(unsubscribed)"},
		{"S05 what is pending is no subscription", []func(*host){put, send(Event{Kind: SubscriptionCancelled})}, "dropped(unsubscribed)"},
		{"S09 a message id counts once, none each time", []func(*host){put, send(subscribed("x")), send(news("a", "1")), send(news("a", "1")), send(news("a", "")), send(news("a", ""))},
			"resolved(tool_result) event(a) dropped(duplicate) event(a) event(a)"},
		{"a result behind a subscription's", []func(*host){put, send(subscribed("x")), send(result("y")), send(oauth("u")), send(news("a", ""))},
			"resolved(tool_result) dropped(duplicate) dropped(late) event(a)"},
		{"a late result opens nothing", []func(*host){put, send(Event{Kind: Interrupted}), send(subscribed("x")), send(news("a", ""))},
			"resolved(interrupted) cancel dropped(late) dropped(unsubscribed)"},
		{"X03 a closed thread has no subscriptions", []func(*host){put, send(subscribed("x")), closeThread, send(news("a", ""))}, "resolved(tool_result) ended dropped(unsubscribed)"},
		{"the lifetime is not the subscription's", []func(*host){put, send(subscribed("x")), later(DefaultLifetime), send(news("a", ""))}, "resolved(tool_result) event(a)"},
		{"S12 one subscription too many", []func(*host){put, send(Event{Kind: Refused, Reason: "too many"}), send(subscribed("x"))}, "resolved(refused) cancel dropped(late)"},
		{"E01 lost while pending", []func(*host){put, send(Event{Kind: CallLost, Reason: "gone"}), send(result("x"))}, "resolved(lost) dropped(late)"},
		{"E01 lost while a choice is open", []func(*host){put, send(choice("r")), send(Event{Kind: CallLost, Reason: "gone"})}, "choice withdraw resolved(lost)"},
		{"E01 a lost subscription", []func(*host){put, send(subscribed("x")), send(Event{Kind: CallLost, Reason: "gone"}), send(news("a", ""))},
			"resolved(tool_result) event(Error: the tool server lost the subscription: gone) ended dropped(unsubscribed)"},
		{"E01 lost, resolved before", []func(*host){put, send(result("x")), send(Event{Kind: CallLost, Reason: "gone"})}, "resolved(tool_result) dropped(late)"},
		{"T01 a call's own lifetime", []func(*host){start(func(c *Call) { c.Lifetime = time.Second }), later(time.Second - 1), send(result("x")), later(1)}, "resolved(tool_result)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := startProgram(t, ProgramOptions{})
				for _, do := range test.do {
					do(h)
					synctest.Wait()
				}
				if got := h.story(k1); got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
				h.stop()
			})
		})
	}
}

func TestDispatchOutcomes(t *testing.T) {
	tests := []struct {
		name    string
		outcome DispatchOutcome
		want    string
	}{
		{"I05 refused", DispatchOutcome{Reason: "refused: 404"}, "resolved(not accepted)"},
		{"I07 ambiguous", DispatchOutcome{Ambiguous: true, Reason: "no acknowledgement"}, "resolved(not accepted) cancel"},
		{"I12 a result before the acknowledgement", DispatchOutcome{Accepted: true}, "resolved(tool_result)"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h *host
				h = startProgram(t, ProgramOptions{Dispatch: func(ctx context.Context, c *Call) DispatchOutcome {
					if test.outcome.Accepted {
						h.deliver(c.Key, result("early"))
					}
					return test.outcome
				}})
				h.call(k1, nil)
				r, err := h.Await(t.Context(), k1)
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := h.story(k1); got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
				if !test.outcome.Accepted && r.Result.String() != "Error: "+test.outcome.Reason {
					t.Errorf("text %q", r.Result.String())
				}
				h.stop()
			})
		})
	}
}

// TestRejectedIsNotDispatched also checks that a key can be used only once.
func TestRejectedIsNotDispatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startProgram(t, ProgramOptions{Dispatch: func(context.Context, *Call) DispatchOutcome {
			t.Error("dispatched")
			return DispatchOutcome{}
		}})
		h.call(k1, func(c *Call) { c.Rejected = "bad arguments" })
		err := h.Call(t.Context(), &Call{Key: k1, Invocation: &Invocation{}})
		if !errors.Is(err, dataflow.ErrDuplicateKey) {
			t.Errorf("a used key gives %v", err)
		}
		h.stop()
		if _, err := h.Await(t.Context(), CallKey{"thread", "never"}); err != io.EOF {
			t.Errorf("awaiting a call that never was gives %v", err)
		}
	})
}

// TestOneResult checks cases R08 and T02: each call resolves exactly once, whatever races.
func TestOneResult(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const calls, repeats = 200, 20
		h := startProgram(t, ProgramOptions{Lifetime: time.Millisecond})
		var wg sync.WaitGroup
		for i := range calls {
			key := CallKey{"thread", fmt.Sprint(i)}
			h.call(key, nil)
			for range repeats {
				wg.Go(func() {
					time.Sleep(time.Millisecond) // so that results, timer and interruption coincide
					h.deliver(key, result("x"))
				})
			}
			wg.Go(func() {
				time.Sleep(time.Millisecond)
				h.deliver(key, Event{Kind: Interrupted})
			})
		}
		wg.Wait()
		synctest.Wait()
		h.stop()
		resolved := make(map[CallKey]int)
		dropped := 0
		for _, e := range h.effects {
			switch e.Kind {
			case Resolve:
				resolved[e.Key]++
			case Drop:
				dropped++
			}
		}
		if len(resolved) != calls {
			t.Errorf("%d calls resolved, want %d", len(resolved), calls)
		}
		for key, n := range resolved {
			if n != 1 {
				t.Errorf("call %v resolved %d times", key, n)
			}
		}
		inputs := calls * (repeats + 1)
		terminal := 0
		for _, e := range h.effects {
			if e.Kind == Resolve && (e.Resolution.Cause == ByResult || e.Resolution.Cause == ByInterruption) {
				terminal++
			}
		}
		if dropped != inputs-terminal {
			t.Errorf("%d inputs dropped, want %d", dropped, inputs-terminal)
		}
	})
}

// TestThreads checks case L02 without HTTP: a dispatch that hangs does not delay other threads.
func TestThreads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := startProgram(t, ProgramOptions{Dispatch: func(ctx context.Context, c *Call) DispatchOutcome {
			if c.Key.GroupID == "hung" {
				<-ctx.Done()
				return DispatchOutcome{Reason: "ended"}
			}
			return DispatchOutcome{Accepted: true}
		}})
		h.call(CallKey{"hung", "1"}, nil)
		h.call(k1, nil)
		h.deliver(k1, result("x"))
		if r, err := h.Await(t.Context(), k1); err != nil || r.Cause != ByResult {
			t.Errorf("got %v, %v", r, err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := h.Stop(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("stopping with a dispatch that hangs gives %v", err)
		}
		if <-h.drained; !errors.Is(h.ended, context.DeadlineExceeded) {
			t.Errorf("the effects ended with %v", h.ended)
		}
	})
}

// TestReasons keeps the list of timing dependencies short.
func TestReasons(t *testing.T) {
	p := NewProgram(ProgramOptions{Dispatch: func(context.Context, *Call) DispatchOutcome { return DispatchOutcome{} }})
	var ops []string
	for _, r := range p.Flow().Reasons() {
		ops = append(ops, r.Op)
	}
	if !slices.Contains(ops, "keyedstream.AssumeOrder") || len(ops) > 14 {
		t.Errorf("reasons: %q", ops)
	}
}
