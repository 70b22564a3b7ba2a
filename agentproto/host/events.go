package host

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
)

// Events returns the events that a call keeps of its subscription. It waits until an event with a number greater than after
// exists or the subscription has ended; with an after of -1 it does not wait. See [agentproto.EventsOf] for what is kept. A call
// of a conversation keeps nothing, because its events are messages of its thread.
//
// The error is [ErrUnknownCall] for a call that keeps no events, [ErrOtherProcess] for one that another process runs and so may
// keep some there, or one of those of [Runtime.Changed].
func (rt *Runtime) Events(ctx context.Context, key agentproto.CallKey, after int) (agentproto.Events, error) {
	none := agentproto.Events{Key: key}
	if capability.CheckID("thread", key.GroupID) != nil || capability.CheckID("call", key.ID) != nil {
		return none, fmt.Errorf("host: call %s: %w", quote.Text(key.String()), ErrUnknownCall)
	}
	changes, leave := rt.changes.Watch(key)
	defer leave()
	for {
		if err := rt.moves.LeftTo(key.GroupID); err != nil {
			return none, err
		}
		e, found, err := agentproto.EventsOf(ctx, rt.flow, key)
		switch {
		case err != nil:
			return none, programError(err)
		case !found:
			return none, rt.noEvents(ctx, key)
		case e.Last > after || e.Ended:
			return e, nil
		}
		select {
		case <-changes:
		case <-rt.leaving:
			return e, ErrStopped
		case <-ctx.Done():
			return e, context.Cause(ctx)
		}
	}
}

// noEvents returns why this process has no events of a call.
func (rt *Runtime) noEvents(ctx context.Context, key agentproto.CallKey) error {
	why := ErrUnknownCall
	if _, resolved := rt.program.Resolved(key); !resolved {
		_, found, err := rt.CallStanding(ctx, key)
		known := false
		if err == nil && !found {
			known, err = rt.Known(ctx, key)
		}
		if err != nil {
			return programError(err)
		}
		if known {
			why = ErrOtherProcess
		}
	}
	return fmt.Errorf("host: call %s has no subscription here: %w", quote.Text(key.String()), why)
}

// Subscriptions returns the open subscriptions of a thread whose events [Runtime.Events] returns, without their texts. It reads
// the state of every call of the thread that this process remembers.
func (rt *Runtime) Subscriptions(ctx context.Context, groupID string) ([]agentproto.Events, error) {
	if err := capability.CheckID("thread", groupID); err != nil {
		return nil, err
	}
	if err := rt.moves.LeftTo(groupID); err != nil {
		return nil, err
	}
	open, err := agentproto.SubscriptionsOf(ctx, rt.flow, groupID)
	return open, programError(err)
}

// EndSubscription ends the subscription that a call opened, and notifies all tool servers. It has no effect on a call without an
// open subscription.
func (rt *Runtime) EndSubscription(ctx context.Context, key agentproto.CallKey) error {
	return rt.deliver(ctx, key, agentproto.Event{Kind: agentproto.SubscriptionCancelled})
}
