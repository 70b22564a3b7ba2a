package host

import (
	"context"
	"errors"
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
		rt.trail.Note(key, "resolved", e.Resolution.Cause.String())
		rt.resolved(e.Resolution)
		rt.progress(key, e.State)

	case agentproto.SurfaceOAuth, agentproto.PromptChoice:
		rt.trail.Note(key, e.State.String(), e.Operation)
		rt.ask(e.Prompt(), true)
		rt.progress(key, e.State)

	case agentproto.Withdraw:
		rt.trail.Note(key, "prompt withdrawn", "")
		rt.endPrompt(key, e.Number, true)

	case agentproto.AnswerChoice: // the program calls answer
		rt.trail.Note(key, "answer is sent", choiceOf(e.Choice, e.Selected))
		rt.endPrompt(key, e.Number, false)
		rt.progress(key, e.State)

	case agentproto.Departed:
		rt.trail.Note(key, "departed", "its session has moved")
		rt.attempts.settle(key)

	case agentproto.CancelCall:
		rt.trail.Note(key, "cancelled at the tool servers", "")
		rt.cancelEverywhere(key)

	case agentproto.DeliverEvent:
		rt.trail.Note(key, "event", "")

	case agentproto.SubscriptionEnded:
		rt.trail.Note(key, "subscription ended", "")

	case agentproto.Drop:
		rt.trail.Note(key, "dropped", e.Dropped.String())
		var s *server
		if r, resolved := rt.program.Resolved(key); resolved {
			s = rt.serverOf(r.Server)
		}
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
	rt.attempts.settle(r.Key)
	s := rt.serverOf(r.Server)
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
		for ctx.Err() == nil { // what is in the queue by then is not wanted
			r, err := q.next(ctx)
			if err != nil || !yield(r) {
				return
			}
		}
	}
}
