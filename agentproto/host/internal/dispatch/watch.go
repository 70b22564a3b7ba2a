package dispatch

import (
	"context"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
)

// Watch asks a tool server at intervals whether it still has a call, or its subscription, as [agentproto.ProgramOptions]
// requires. For a call that an earlier process posted, it asks at once. It returns why the call is lost, or "" when the call is
// over.
//
// For a subscription opened before this process started, it is not known here whether the subscription is over; if it is,
// reporting it as lost has no effect.
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
		settled = nil // this process has not seen the resolution
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

// isOver reports whether a call is resolved and has no open subscription. If this process has not seen the resolution, a
// subscription that the call opened counts as open.
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
