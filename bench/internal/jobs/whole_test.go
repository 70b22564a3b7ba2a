package jobs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// TestWholeDoesTheSame plays stories to the program and to the handwritten version that claims
// to do the same. Both return the same effects in the same order.
func TestWholeDoesTheSame(t *testing.T) {
	key := agentproto.CallKey{GroupID: "thread", ID: "1"}
	text := "x"
	result := agentproto.Event{Kind: agentproto.ResultArrived, Result: &agentproto.ToolResult{Text: &text}}
	oauth := func(url string) agentproto.Event {
		return agentproto.Event{Kind: agentproto.OAuthArrived, OAuth: &agentproto.OAuth{AuthURL: url}}
	}
	choice := agentproto.Event{Kind: agentproto.ChoiceArrived, Choice: &agentproto.UserChoice{Choices: []string{"a", "b"}, Default: 1, ResponseURL: "r"}}
	answer := agentproto.Event{Kind: agentproto.ChoiceAnswered, Detour: "r"}
	interrupt := agentproto.Event{Kind: agentproto.Interrupted}
	type closing struct{}
	put := &agentproto.Call{Key: key, Invocation: &agentproto.Invocation{}}
	rejected := &agentproto.Call{Key: key, Invocation: &agentproto.Invocation{}, Rejected: "no such tool"}
	refused := agentproto.DispatchOutcome{Reason: "404", Ambiguous: true}

	for name, story := range map[string][]any{
		"result":               {put, result, result, interrupt},
		"unknown":              {result},
		"rejected":             {rejected, result},
		"refused":              {refused, put, result},
		"detours":              {put, oauth("u"), oauth("u"), oauth("v"), result, oauth("w")},
		"too many":             {put, oauth("1"), oauth("2"), oauth("3"), oauth("4"), oauth("5"), oauth("6")},
		"choice":               {put, choice, answer, answer, agentproto.Event{Kind: agentproto.AnswerFailed, Reason: "404"}},
		"default":              {put, choice, agentproto.DefaultChoiceTimeout, agentproto.DefaultLifetime},
		"answered in time":     {put, choice, time.Hour, answer, agentproto.DefaultLifetime - 1, result},
		"never authorized":     {put, oauth("u"), agentproto.DefaultOAuthTimeout},
		"lifetime":             {put, agentproto.DefaultLifetime, result},
		"interrupted":          {put, choice, interrupt, answer},
		"malformed":            {put, agentproto.Event{Kind: agentproto.Malformed, Reason: "empty"}},
		"closed":               {put, oauth("u"), closing{}, result, closing{}},
		"closed before":        {closing{}, put, result},
		"resolved, and closed": {put, result, closing{}},
	} {
		t.Run(name, func(t *testing.T) {
			play := func(t *testing.T, call func(*agentproto.Call), deliver func(agentproto.Event), closeThread func()) {
				for _, x := range story {
					switch x := x.(type) {
					case *agentproto.Call:
						call(x)
					case agentproto.Event:
						deliver(x)
					case time.Duration:
						time.Sleep(x)
					case closing:
						closeThread()
					}
					synctest.Wait()
				}
			}
			dispatch := func(context.Context, *agentproto.Call) agentproto.DispatchOutcome {
				if outcome, ok := story[0].(agentproto.DispatchOutcome); ok {
					return outcome
				}
				return agentproto.DispatchOutcome{Accepted: true}
			}
			var byHand, byProgram []string
			synctest.Test(t, func(t *testing.T) {
				rt := newWholeRuntime(dispatch, func(e agentproto.Effect) { byHand = append(byHand, told(e)) })
				play(t, func(c *agentproto.Call) { must(rt.Call(c)) }, func(e agentproto.Event) { rt.Deliver(key, e) },
					func() { rt.CloseThread(key.GroupID) })
				rt.Stop()
			})
			synctest.Test(t, func(t *testing.T) {
				p := agentproto.NewProgram(agentproto.ProgramOptions{Dispatch: dispatch})
				must(p.Start(background))
				drained := make(chan struct{})
				go func() {
					defer close(drained)
					for e, err := p.NextEffect(background); err == nil; e, err = p.NextEffect(background) {
						byProgram = append(byProgram, told(e))
					}
				}()
				play(t, func(c *agentproto.Call) { must(p.Call(background, c)) }, func(e agentproto.Event) { must(p.Deliver(background, key, e)) },
					func() { must(p.CloseThread(background, key.GroupID)) })
				must(p.Stop(background))
				<-drained
			})
			if !slices.Equal(byHand, byProgram) {
				t.Errorf("by hand\n%q\nthe program\n%q", byHand, byProgram)
			}
		})
	}
}

// told describes an effect by its contents.
func told(e agentproto.Effect) string {
	text := fmt.Sprint(e.Kind, e.Key, e.State, e.Detour, e.Selected, e.Dropped, e.Event, e.OAuth != nil, e.Choice != nil)
	if r := e.Resolution; r != nil {
		text += fmt.Sprint(r.Key, r.Cause, r.Result.String())
	}
	return text
}
