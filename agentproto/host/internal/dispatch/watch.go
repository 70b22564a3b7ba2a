package dispatch

import (
	"context"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
)

// Watch asks a tool server from time to time whether it has a call, or its subscription,
// still, as [agentproto.ProgramOptions] asks. A call of a process before this one is asked
// for at once. It returns why the call is lost, or "" when it is over.
//
// Whether the subscription that a call opened before this process is over is not known
// here; for one that is, the answer that it is lost has no effect.
func (d *Dispatcher) Watch(ctx context.Context, w *agentproto.Watched) string {
	select {
	case <-d.Running:
	case <-ctx.Done():
		return ""
	}
	s := d.Peers.Named(w.Server)
	if s == nil {
		return "" // its tool server is no longer configured
	}
	ours := d.attempts.watch(w.Key)
	settled, end := d.begin(w.Key)
	defer end()
	if _, resolved := d.program.Resolved(w.Key); resolved {
		settled = nil // nobody here has seen it
	}
	wait := d.Status
	if !ours {
		wait = 0
	}
	next := time.NewTimer(wait)
	defer next.Stop()
	for {
		select {
		case <-settled:
			settled, ours = nil, true
			if d.isOver(w.Key, ours) {
				return ""
			}
			continue
		case <-ctx.Done():
			return ""
		case <-next.C:
		}
		if d.isOver(w.Key, ours) {
			return ""
		}
		if state, reason := d.Peers.AskStatus(ctx, s, w.Key); state == peer.Lost {
			return reason
		}
		next.Reset(d.Status)
	}
}

// isOver reports whether a call is resolved and has no open subscription. If this process has not seen it being
// resolved, a subscription that it opened is taken for open.
func (d *Dispatcher) isOver(key agentproto.CallKey, seen bool) bool {
	r, resolved := d.program.Resolved(key)
	switch {
	case !resolved:
		return false
	case r.Cause != agentproto.ByResult || !r.Result.Subscription:
		return true
	}
	return seen && !d.Subscriptions.IsOpen(key) || d.Subscriptions.HasEnded(key)
}
