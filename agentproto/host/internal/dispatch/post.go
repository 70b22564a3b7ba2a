package dispatch

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/host/internal/tally"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/agentproto/internal/tracing"
)

// maxInvocation is the maximum size of an invocation in bytes: see section 2.7 of doc/protocol.md. A tool server answers a larger
// one with 413, which says nothing about the size to the model.
const maxInvocation = 1 << 20

// Post posts an invocation, as a function of type [agentproto.Dispatch]. It first waits for a free slot of the tool server; the
// time for all attempts starts after that.
func (d *Dispatcher) Post(ctx context.Context, call *agentproto.Call) agentproto.DispatchOutcome {
	select {
	case <-d.Running: // before that, the sealer's key may differ from that of the call's URL
	case <-ctx.Done():
		return agentproto.DispatchOutcome{Reason: "the runtime stopped before the call was posted"}
	}
	if is, lasts := d.program.Lasting(call.Key); lasts && !call.Is(is) {
		// Another process has put the same key again although its call is not over. Only the first call counts; this one is not a
		// call.
		return agentproto.DispatchOutcome{Accepted: true}
	}
	s := d.Peers.Named(call.Server)
	if s == nil {
		return agentproto.DispatchOutcome{Reason: "the tool server of the call is no longer configured"}
	}
	settled, end := d.begin(call.Key)
	defer end()
	body, err := agentproto.Encode(call.Invocation)
	if err != nil {
		d.Log.Error("invocation cannot be encoded", quote.Call(call.Key), "error", err)
		return agentproto.DispatchOutcome{Reason: "the call cannot be expressed in JSON"}
	}
	if len(body) > maxInvocation {
		return agentproto.DispatchOutcome{Reason: fmt.Sprintf("the call has %d bytes, and at most %d can be sent", len(body), maxInvocation)}
	}
	select {
	case s.Slots <- struct{}{}:
		defer func() { <-s.Slots }()
	case <-settled:
	case <-ctx.Done():
		return agentproto.DispatchOutcome{Reason: "the runtime stopped before the call was posted"}
	}
	select {
	case <-settled: // resolved while it waited, for example cancelled
		return agentproto.DispatchOutcome{Reason: "the call was resolved before it was posted"}
	default:
	}
	m := &peer.Delivery{
		Server: s, What: "the call", To: call.Endpoint, ID: peer.MessageID(purpose.Invoke, call.Key, call.Invocation.CallbackURL), Body: body,
		Attempt: d.Ack, Total: d.Total, Settled: settled,
		Started: func() { d.Peers.Count(s, tally.Attempts) },
	}
	ctx, span := tracing.Start(ctx, d.Tracer, agentproto.SpanStart{
		Name: agentproto.SpanDispatch, Kind: agentproto.SpanClient, Parent: call.Trace, Key: call.Key, Operation: call.Invocation.Operation, Peer: s.Base,
	})
	ending := d.Peers.Deliver(ctx, m)
	span.End(ending.Outcome(), !ending.Accepted)
	if ending.Accepted {
		d.Trail.Note(call.Key, "accepted", s.Base)
		outcome := agentproto.DispatchOutcome{Accepted: true}
		if d.AskStatus {
			outcome.Watch = call.Server
			d.attempts.posted(call.Key)
		}
		return outcome
	}
	if ctx.Err() != nil {
		return agentproto.DispatchOutcome{Ambiguous: true, Reason: "the runtime stopped"}
	}
	d.Trail.Note(call.Key, "not accepted", s.Base+" "+ending.Failure)
	d.Log.Warn("call not accepted", quote.Call(call.Key), "toolset", s.Base, "failure", ending.Failure,
		"attempts", ending.Attempts, "ambiguous", ending.Ambiguous, "error", ending.Err)
	return agentproto.DispatchOutcome{
		Ambiguous: ending.Ambiguous, Reason: fmt.Sprintf("tool server %s %s", s.Base, ending.Failure),
	}
}
