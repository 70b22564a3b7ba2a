package host

import (
	"context"
	"errors"
	"io"
	"iter"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/queue"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/host/internal/tally"
	"github.com/millrace/millrace/agentproto/internal/tracing"
)

// perform is the goroutine that performs the effects of the program. It must never wait: a program whose effects are not read
// stops making progress.
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
	defer rt.changes.Tell(key)
	rt.subscribed.See(e)
	defer rt.live.Touch(key.GroupID)
	switch e.Kind {
	case agentproto.Resolve:
		rt.trail.Note(key, "resolved", e.Resolution.Cause.String())
		rt.traceResolution(e.Resolution)
		rt.resolved(e.Resolution)
		rt.display.Progress(key, e.State)

	case agentproto.SurfaceOAuth, agentproto.PromptChoice:
		rt.trail.Note(key, e.State.String(), e.Operation)
		rt.display.Ask(e.Prompt(), true)
		rt.display.Progress(key, e.State)

	case agentproto.Withdraw:
		rt.trail.Note(key, "prompt withdrawn", "")
		rt.display.End(key, e.Number, true)

	case agentproto.AnswerChoice: // the program calls SendAnswer of the dispatcher
		rt.trail.Note(key, "answer is sent", choiceOf(e.Choice, e.Selected))
		rt.display.End(key, e.Number, false)
		rt.display.Progress(key, e.State)

	case agentproto.Departed:
		// What is being delivered goes on: the destination does not know of it.
		rt.trail.Note(key, "departed", "its session has moved")

	case agentproto.CancelCall:
		rt.trail.Note(key, "cancelled at the tool servers", "")
		rt.peers.CancelEverywhere(key)

	case agentproto.DeliverEvent:
		rt.trail.Note(key, "event", "")

	case agentproto.SubscriptionEnded:
		rt.trail.Note(key, "subscription ended", "")

	case agentproto.Drop:
		rt.trail.Note(key, "dropped", e.Dropped.String())
		var s *peer.Server
		if r, resolved := rt.program.Resolved(key); resolved {
			s = rt.peers.Named(r.Server)
		}
		switch e.Dropped {
		case agentproto.Duplicate:
			rt.peers.Count(s, tally.Duplicates)
		case agentproto.Late:
			rt.peers.Count(s, tally.Late)
		case agentproto.Repeated:
			rt.peers.Count(s, tally.Repeated)
		case agentproto.Unsubscribed:
			rt.peers.Count(s, tally.Unsubscribed)
		}
		rt.log.Debug("dropped", quote.Call(key), "reason", e.Dropped.String())
	}
}

// traceResolution records the last span of a call.
func (rt *Runtime) traceResolution(r *agentproto.Resolution) {
	_, span := tracing.Start(rt.ctx, rt.opts.Tracer, agentproto.SpanStart{Name: agentproto.SpanResolve, Parent: r.Trace, Key: r.Key})
	span.End(r.Cause.String(), r.Cause != agentproto.ByResult)
}

// resolved passes a resolution to the callers of Results.
func (rt *Runtime) resolved(r *agentproto.Resolution) {
	rt.dispatcher.Settle(r.Key)
	s := rt.peers.Named(r.Server)
	if r.Cause == agentproto.ByResult {
		rt.peers.Count(s, tally.Results)
	} else {
		rt.peers.Count(s, tally.Failures)
	}
	rt.log.Debug("resolved", quote.Call(r.Key), "cause", r.Cause.String())
	rt.mu.Lock()
	defer rt.mu.Unlock()
	for q := range rt.followers {
		q.Push(r)
	}
}

// Results returns the resolutions of all calls from now on, in the order in which they were resolved. Each caller gets all of
// them. Unread resolutions are queued, so the sequence has to be read. It can be read once, and ends when ctx ends or after the
// runtime has stopped.
func (rt *Runtime) Results(ctx context.Context) iter.Seq[*agentproto.Resolution] {
	q := queue.New[*agentproto.Resolution]()
	rt.mu.Lock()
	if rt.ended {
		q.Close()
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
		for ctx.Err() == nil { // what is still queued when ctx ends is not wanted
			r, err := q.Next(ctx)
			if err != nil || !yield(r) {
				return
			}
		}
	}
}
