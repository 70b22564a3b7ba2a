package agentproto

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/commands"
	"github.com/leanovate/gopter/gen"

	"github.com/millrace/millrace/dataflow"
)

// An acted is a program to which a test applies acts.
type acted struct {
	*host
	mu     sync.Mutex
	posted map[CallKey]chan DispatchOutcome
	seen   model // what the program was observed to do
	read   int   // number of effects read
}

func startActed(t *testing.T) *acted {
	a := &acted{posted: make(map[CallKey]chan DispatchOutcome), seen: model{calls: make(map[CallKey]modelCall)}}
	a.host = startProgram(t, ProgramOptions{Dispatch: func(_ context.Context, c *Call) DispatchOutcome {
		done := make(chan DispatchOutcome, 1)
		a.mu.Lock()
		a.posted[c.Key] = done
		a.mu.Unlock()
		return <-done
	}})
	return a
}

// end ends the program and its unfinished dispatches.
func (a *acted) end() {
	for _, done := range a.posted {
		done <- DispatchOutcome{Accepted: true}
	}
	a.stop()
}

var timesOf = map[string]EventKind{"result": ResultArrived, "malformed": Malformed, "interrupt": Interrupted, "undelivered": AnswerFailed, "unsubscribe": SubscriptionCancelled}

// do applies an act and returns everything observed since the program began.
func (a *acted) do(x act) string {
	c := a.seen.calls[x.Key]
	address := fmt.Sprint(x.Do, x.N)
	switch x.Do {
	case "call", "reject":
		call := &Call{Key: x.Key, Invocation: &Invocation{GroupID: x.Key.GroupID, ID: x.Key.ID}}
		if x.Do == "reject" {
			call.Rejected = "no such tool"
		}
		switch err := a.Call(context.Background(), call); {
		case errors.Is(err, dataflow.ErrDuplicateKey):
			c.say("used")
		case err != nil:
			a.t.Fatal(err)
		default:
			c.State = "pending"
		}
		a.seen.calls[x.Key] = c
	case "refuse":
		if done := a.posted[x.Key]; done != nil {
			done <- DispatchOutcome{Reason: "refused"}
			delete(a.posted, x.Key)
		}
	case "close":
		if err := a.CloseThread(context.Background(), x.Key.GroupID); err != nil {
			a.t.Fatal(err)
		}
	case "result":
		a.deliver(x.Key, result("x"))
	case "subscribed":
		a.deliver(x.Key, subscribed("x"))
	case "event":
		id := ""
		if x.N > 0 {
			id = fmt.Sprint(x.N)
		}
		a.deliver(x.Key, news("x", id))
	case "final":
		a.deliver(x.Key, final("x"))
	case "oauth":
		a.deliver(x.Key, oauth(address))
	case "choice":
		a.deliver(x.Key, choice(address))
	case "answer":
		a.deliver(x.Key, answer1(fmt.Sprint("choice", x.N), x.N))
	case "dismiss":
		a.deliver(x.Key, answer1(fmt.Sprint("choice", x.N), 2))
	case "malformed", "interrupt", "undelivered", "unsubscribe":
		a.deliver(x.Key, Event{Kind: timesOf[x.Do]})
	default:
		time.Sleep(passing[x.Do])
	}
	synctest.Wait()
	return a.watch().String()
}

// watch reads the program's new effects into the observed model.
func (a *acted) watch() model {
	a.host.mu.Lock()
	defer a.host.mu.Unlock()
	for _, e := range a.effects[a.read:] {
		c := a.seen.calls[e.Key]
		switch e.Kind {
		case Resolve:
			if c.pending() {
				c.State = e.Resolution.Cause.String()
			} else {
				c.say("resolved again")
			}
		case SurfaceOAuth:
			c.State = "oauth"
			c.say("asked:" + e.Detour)
		case PromptChoice:
			c.State = "choice"
			c.say("asked:" + e.Detour)
		case AnswerChoice:
			c.State = "pending"
			c.say(fmt.Sprint("answered:", e.Selected))
		case Drop:
			c.say(e.Dropped.String())
		case DeliverEvent:
			c.say("event")
		}
		a.seen.calls[e.Key] = c
	}
	a.read = len(a.effects)
	return a.seen
}

// TestAgainstModel applies random acts to a program and to its model. If they differ, it
// shrinks the sequence. It compares the state and the cause of each call, the questions to the
// user and the tool, and what was dropped and why. It catches rules that are right alone and
// wrong in sequence.
func TestAgainstModel(t *testing.T) {
	if *seed == 0 {
		*seed = time.Now().UnixNano()
	}
	keys := []any{CallKey{"a", "1"}, CallKey{"a", "2"}, CallKey{"b", "1"}}
	often := func(n int, names ...any) gen.WeightedGen {
		return gen.WeightedGen{Weight: n, Gen: gen.OneConstOf(names...)}
	}
	acts := gen.Weighted([]gen.WeightedGen{
		often(4, "call"), often(8, "oauth", "choice", "answer", "dismiss"), often(4, "subscribed", "event"),
		often(4, "result", "malformed", "interrupt", "undelivered", "refuse", "final", "unsubscribe", "reject"),
		often(2, "minute", "oauthTimer", "lifetime", "choiceTimer"), often(1, "close"),
	})
	reached := make(map[string]int)
	synctest.Test(t, func(t *testing.T) {
		system := &commands.ProtoCommands{
			InitialStateGen:            gen.Const(model{calls: make(map[CallKey]modelCall)}),
			NewSystemUnderTestFunc:     func(commands.State) commands.SystemUnderTest { return startActed(t) },
			DestroySystemUnderTestFunc: func(sut commands.SystemUnderTest) { sut.(*acted).end() },
			GenCommandFunc: func(commands.State) gopter.Gen {
				return gopter.CombineGens(acts, gen.OneConstOf(keys...), gen.IntRange(0, 2)).Map(func(v []any) commands.Command {
					a := act{v[0].(string), v[1].(CallKey), v[2].(int)}
					return &commands.ProtoCommand{
						Name:          a.String(),
						RunFunc:       func(sut commands.SystemUnderTest) commands.Result { return sut.(*acted).do(a) },
						NextStateFunc: func(s commands.State) commands.State { return s.(model).after(a) },
						PostConditionFunc: func(s commands.State, got commands.Result) *gopter.PropResult {
							m := s.(model)
							for _, c := range m.calls {
								reached[c.State]++
							}
							if want := m.String(); got.(string) != want {
								return gopter.NewPropResult(false, fmt.Sprintf("after %v\ngot  %s\nwant %s", a, got, want))
							}
							return gopter.NewPropResult(true, "")
						},
					}
				})
			},
		}
		params := gopter.DefaultTestParametersWithSeed(*seed)
		params.MinSuccessfulTests, params.MinSize, params.MaxSize = 300, 20, 60
		properties := gopter.NewProperties(params)
		properties.Property("a program does what the model says", commands.Prop(system))
		var report bytes.Buffer
		if !properties.Run(gopter.NewFormatedReporter(false, 100, &report)) {
			t.Errorf("%s\nrerun: go test ./agentproto -run '^%s$' -seed %d", &report, t.Name(), *seed)
		}
	})
	for _, state := range []string{"pending", "oauth", "choice", "tool_result", "rejected", "not accepted", "timed out", "interrupted", "thread closed", "malformed", "answer failed"} {
		if reached[state] == 0 {
			t.Errorf("no sequence comes to %q (seed %d)", state, *seed)
		}
	}
	t.Logf("seed %d: %v", *seed, reached)
}
