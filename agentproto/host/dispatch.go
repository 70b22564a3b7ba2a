package host

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/internal/edge"
)

// dispatch posts an invocation, as [agentproto.Dispatch] asks. It waits for its
// turn at the tool server first; the time for all attempts starts after that.
func (rt *Runtime) dispatch(ctx context.Context, call *agentproto.Call) agentproto.DispatchOutcome {
	select {
	case <-rt.running: // until then the key may be another one than that of the call's URL
	case <-ctx.Done():
		return agentproto.DispatchOutcome{Reason: "the runtime stopped before the call was posted"}
	}
	if is, lasts := rt.program.Lasting(call.Key); lasts && !call.Is(is) {
		// Another process has put the key again whose call is not over. The call of the first is, and this is not one.
		return agentproto.DispatchOutcome{Accepted: true}
	}
	s := rt.serverOf(call.Server)
	if s == nil {
		return agentproto.DispatchOutcome{Reason: "the tool server of the call is no longer configured"}
	}
	settled, end := rt.begin(call.Key)
	defer end()
	body, err := agentproto.Encode(call.Invocation)
	if err != nil {
		rt.log.Error("invocation cannot be encoded", keyAttr(call.Key), "error", err)
		return agentproto.DispatchOutcome{Reason: "the call cannot be expressed in JSON"}
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-settled:
	case <-ctx.Done():
		return agentproto.DispatchOutcome{Reason: "the runtime stopped before the call was posted"}
	}
	select {
	case <-settled: // while it waited, as when it was cancelled
		return agentproto.DispatchOutcome{Reason: "the call was resolved before it was posted"}
	default:
	}
	d := delivery{
		rt: rt, server: s, what: "the call", to: call.Endpoint, id: messageID(purpose.Invoke, call.Key, call.Invocation.CallbackURL), body: body,
		attempt: rt.opts.Timeouts.Ack, total: rt.opts.Timeouts.Dispatch, settled: settled,
		started: func() { rt.count(s, nAttempts) },
	}
	ending := d.run(ctx)
	if ending.accepted {
		rt.trail.Note(call.Key, "accepted", s.base)
		outcome := agentproto.DispatchOutcome{Accepted: true}
		if rt.opts.AskStatus {
			outcome.Watch = call.Server
			rt.attempts.posted(call.Key)
		}
		return outcome
	}
	if ctx.Err() != nil {
		return agentproto.DispatchOutcome{Ambiguous: true, Reason: "the runtime stopped"}
	}
	rt.trail.Note(call.Key, "not accepted", s.base+" "+ending.failure)
	rt.log.Warn("call not accepted", keyAttr(call.Key), "toolset", s.base, "failure", ending.failure,
		"attempts", ending.attempts, "ambiguous", ending.ambiguous, "error", ending.err)
	return agentproto.DispatchOutcome{
		Ambiguous: ending.ambiguous, Reason: fmt.Sprintf("tool server %s %s", s.base, ending.failure),
	}
}

// A delivery is one message that is posted until it is accepted, refused or given
// up: an invocation, or the answer to a prompt.
type delivery struct {
	rt      *Runtime
	server  *server // whose secrets sign it; nil if it is not known
	what    string  // for texts: the call, the answer
	to      string
	id      string // the webhook-id of every attempt
	body    []byte
	attempt time.Duration   // for one attempt
	total   time.Duration   // for all of them; zero is no limit
	settled <-chan struct{} // when closed, there is no further attempt; may be nil
	started func()          // called for each attempt; may be nil
}

// An ending is what came of a delivery.
type ending struct {
	accepted  bool
	ambiguous bool   // the server may have the message although it did not say so
	failure   string // what the server did, as a predicate
	attempts  int
	err       error // of the last attempt, for the log
}

// run makes the attempts.
//
// A status of 4xx other than 429 is final, and so is a redirect, which could lead
// anywhere. 429, 5xx, silence and failed connections are tried again. The
// message is ambiguous if any attempt may have reached the server's program.
func (d *delivery) run(ctx context.Context) (end ending) {
	if d.total > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.total)
		defer cancel()
	}
	for {
		if d.started != nil {
			d.started()
		}
		end.attempts++
		once, cancel := context.WithTimeout(ctx, d.attempt)
		a, err := d.rt.post(once, d.server, d.to, d.id, d.body, 0)
		silent := once.Err() != nil
		cancel()

		end.err = err
		switch {
		case err == nil && a.OK():
			end.accepted = true
			return end
		case err == nil && a.Status == http.StatusTooManyRequests:
			end.failure = "is overloaded: 429"
		case err == nil && a.Status >= 500:
			end.failure = fmt.Sprintf("failed: %d", a.Status)
			end.ambiguous = true
		case err == nil && a.Status >= 400:
			end.failure = fmt.Sprintf("refused %s: %d", d.what, a.Status)
			return end
		case err == nil:
			end.failure = fmt.Sprintf("redirected %s, which is not followed: %d", d.what, a.Status)
			return end
		case !edge.Reached(err):
			end.failure = "is unreachable"
		case silent:
			end.failure = "did not acknowledge " + d.what + " in time"
			end.ambiguous = true
		default:
			end.failure = "broke the connection"
			end.ambiguous = true
		}
		after := time.Duration(0)
		if err == nil {
			after = a.RetryAfter
		}
		if !d.rt.retry().Wait(ctx, end.attempts, after, d.settled) {
			return end
		}
	}
}

// retry is when what a tool server did not take is tried again.
func (rt *Runtime) retry() edge.Curve { return edge.Curve{First: rt.opts.Timeouts.Retry} }
