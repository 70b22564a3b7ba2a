package runtime

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/millrace/millrace/agentproto"
)

// perform is the goroutine that does what the program asks for. Nothing in it
// waits: a program whose effects are not read stops.
func (rt *Runtime) perform() {
	for {
		e, err := rt.program.NextEffect(rt.ctx)
		if err != nil {
			if !errors.Is(err, io.EOF) && !rt.stopping.Load() {
				rt.log.Error("the program failed", "error", err)
			}
			return
		}
		rt.do(e)
	}
}

// do starts one effect.
func (rt *Runtime) do(e agentproto.Effect) {
	key := e.Key
	rt.subscribed.see(e)
	switch e.Kind {
	case agentproto.Resolve:
		rt.resolved(e.Resolution)
		rt.progress(key, e.State)

	case agentproto.SurfaceOAuth:
		rt.show(func(ctx context.Context, s Surface) { s.OAuth(ctx, key, e.OAuth) })
		rt.progress(key, e.State)

	case agentproto.PromptChoice:
		rt.ledger.setPrompt(key, e.Choice)
		rt.show(func(ctx context.Context, s Surface) { s.Choice(ctx, key, e.Choice) })
		rt.progress(key, e.State)

	case agentproto.Withdraw:
		if rt.ledger.promptOf(key, e.Detour) != nil {
			rt.ledger.setPrompt(key, nil)
		}
		rt.show(func(_ context.Context, s Surface) { s.Withdraw(key, e.Detour) })

	case agentproto.AnswerChoice:
		rt.ledger.setPrompt(key, nil)
		rt.spawn(func() { rt.deliverAnswer(key, e.Choice, e.Selected) })
		rt.progress(key, e.State)

	case agentproto.CancelCall:
		rt.cancelEverywhere(key)

	case agentproto.Drop:
		s := rt.ledger.serverOf(key)
		switch e.Dropped {
		case agentproto.Duplicate:
			rt.count(s, nDuplicates)
		case agentproto.Late:
			rt.count(s, nLate)
		case agentproto.Repeated:
			rt.count(s, nRepeated)
		case agentproto.Unsubscribed:
			rt.count(s, nUnsubscribed)
		}
		rt.log.Debug("dropped", keyAttr(key), "reason", e.Dropped.String())
	}
}

func (rt *Runtime) progress(key agentproto.CallKey, state agentproto.State) {
	rt.show(func(_ context.Context, s Surface) { s.Progress(key, state) })
}

// resolved hands a resolution to whoever follows the results.
func (rt *Runtime) resolved(r *agentproto.Resolution) {
	s := rt.ledger.settle(r.Key)
	if r.Cause == agentproto.ByResult {
		rt.count(s, nResults)
	} else {
		rt.count(s, nFailures)
	}
	rt.log.Debug("resolved", keyAttr(r.Key), "cause", r.Cause.String())
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for q := range rt.followers {
		q.push(r)
	}
}

// Results returns the resolutions of all calls from now on, in the order in which
// they were resolved. Each caller sees all of them. What is not yet read is kept,
// so the sequence has to be read; it can be read once, and ends with ctx or after
// the runtime has stopped.
func (rt *Runtime) Results(ctx context.Context) iter.Seq[*agentproto.Resolution] {
	q := newQueue[*agentproto.Resolution]()
	rt.mu.Lock()
	if rt.ended {
		q.close()
	} else {
		rt.followers[q] = true
	}
	rt.mu.Unlock()
	leave := func() {
		rt.mu.Lock()
		defer rt.mu.Unlock()
		delete(rt.followers, q)
	}
	stop := context.AfterFunc(ctx, leave)
	return func(yield func(*agentproto.Resolution) bool) {
		defer stop()
		defer leave()
		for {
			r, err := q.next(ctx)
			if err != nil || !yield(r) {
				return
			}
		}
	}
}

// Answer takes the user's answer to a prompt: an index into its choices, or
// [Dismiss]. It returns when the answer is taken in, not when the tool has it; an
// answer that cannot be delivered resolves the call with an error. Of several
// answers to one prompt the first counts, and an answer to a prompt that is not
// open has no effect.
func (rt *Runtime) Answer(ctx context.Context, key agentproto.CallKey, responseURL string, selected int) error {
	prompt := rt.ledger.promptOf(key, responseURL)
	switch {
	case prompt == nil && selected == Dismiss:
		return nil
	case prompt != nil && selected == Dismiss:
		selected = prompt.Default
	case selected < 0 || prompt != nil && selected >= len(prompt.Choices):
		return fmt.Errorf("runtime: answer %d: %w", selected, ErrBadChoice)
	}
	return rt.deliver(ctx, key, agentproto.Event{
		Kind: agentproto.ChoiceAnswered, Detour: responseURL, Selected: selected,
		Lifetime: rt.ledger.lifetimeOf(key),
	})
}

// deliverAnswer posts the user's answer to the tool server that asked.
func (rt *Runtime) deliverAnswer(key agentproto.CallKey, prompt *agentproto.UserChoice, selected int) {
	s, settled := rt.ledger.find(key)
	if settled == nil {
		return
	}
	base := "the tool server"
	if s != nil {
		base = s.base
	}
	fail := func(failure string) {
		err := rt.program.Deliver(rt.ctx, key, agentproto.Event{
			Kind: agentproto.AnswerFailed, Detour: prompt.ResponseURL, Reason: base + " " + failure,
		})
		if err != nil {
			rt.log.Warn("failed answer not recorded", keyAttr(key), "error", err)
		}
	}
	body, err := agentproto.Encode(&agentproto.ChoiceResponse{ID: key.ID, Selected: selected})
	if err != nil {
		fail("cannot be answered in JSON")
		return
	}
	d := delivery{
		rt: rt, server: s, what: "the answer", to: prompt.ResponseURL, id: messageID(key, prompt.ResponseURL), body: body,
		attempt: rt.opts.Timeouts.Answer, settled: settled,
	}
	end := d.run(rt.ctx)
	if end.accepted || rt.ctx.Err() != nil {
		return
	}
	rt.log.Warn("answer not accepted", keyAttr(key), "toolset", base, "failure", end.failure,
		"attempts", end.attempts, "error", end.err)
	fail(end.failure)
}
