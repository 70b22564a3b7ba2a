package host

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
)

// Events returns the events that are kept of the subscription that a call opened, as soon as there is one whose number is more than
// after or the subscription has ended. An after of -1 does not wait. See [agentproto.EventsOf] for what is kept; of a call of a
// conversation that is nothing, since its events are messages of its thread.
//
// The error is [ErrUnknownCall] for a call of which no events are kept in this process, and those of [Runtime.Changed].
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
			return none, fmt.Errorf("host: call %s has no subscription: %w", quote.Text(key.String()), ErrUnknownCall)
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

// Subscriptions returns the open subscriptions of a thread of which [Runtime.Events] has the events, without their texts. It looks at
// each call of the thread that this process remembers.
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

// EndSubscription ends the subscription that a call opened, and tells all tool servers. A call without an open one stays as it is.
func (rt *Runtime) EndSubscription(ctx context.Context, key agentproto.CallKey) error {
	return rt.deliver(ctx, key, agentproto.Event{Kind: agentproto.SubscriptionCancelled})
}
