package dispatch

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/agentproto/internal/tracing"
)

// SendAnswer posts the user's answer to the tool server that asked, as [agentproto.ProgramOptions] requires. After a restart it
// is called for each unfinished answer, with the same webhook-id.
func (d *Dispatcher) SendAnswer(ctx context.Context, a *agentproto.Answer) {
	select {
	case <-d.Running:
	case <-ctx.Done():
		return
	}
	settled, end := d.begin(a.Key)
	defer end()
	select {
	case <-settled:
		return
	default:
	}
	base, s := "the tool server", d.Peers.Named(a.Server)
	if s != nil {
		base = s.Base
	}
	body, err := agentproto.Encode(&agentproto.ChoiceResponse{ID: a.Key.ID, Selected: a.Selected, Values: a.Values})
	if err != nil {
		d.answerFailed(ctx, a, base+" cannot be answered in JSON")
		return
	}
	m := &peer.Delivery{
		Server: s, What: "the answer", To: a.Choice.ResponseURL, Body: body,
		ID:      peer.MessageID(purpose.Answer, a.Key, fmt.Sprintf("%s %d", a.Choice.ResponseURL, a.Number)),
		Attempt: d.Answer, Settled: settled,
	}
	ctx, span := tracing.Start(ctx, d.Tracer, agentproto.SpanStart{
		Name: agentproto.SpanAnswer, Kind: agentproto.SpanClient, Parent: a.Trace, Key: a.Key, Peer: base,
	})
	ending := d.Peers.Deliver(ctx, m)
	span.End(ending.Outcome(), !ending.Accepted)
	if ending.Accepted || ctx.Err() != nil {
		return
	}
	d.Log.Warn("answer not accepted", quote.Call(a.Key), "toolset", base, "failure", ending.Failure,
		"attempts", ending.Attempts, "error", ending.Err)
	d.answerFailed(ctx, a, base+" "+ending.Failure)
}

// answerFailed tells the program that an answer could not be delivered. In a durable runtime it does not return before the
// program has accepted that: this process or the next one tries again.
func (d *Dispatcher) answerFailed(ctx context.Context, a *agentproto.Answer, reason string) {
	err := d.deliver(ctx, a.Key, agentproto.Event{
		Kind: agentproto.AnswerFailed, Detour: a.Choice.ResponseURL, Reason: reason,
	})
	if err == nil {
		return
	}
	d.Log.Warn("failed answer not recorded", quote.Call(a.Key), "error", err)
	if d.Kept {
		<-ctx.Done()
	}
}
