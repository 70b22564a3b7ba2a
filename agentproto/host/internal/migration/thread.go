package migration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/internal/edge"
)

// This file has the steps of a migration for one thread: its conversation, if this runtime holds it, and its calls. Each step is
// repeatable.

// freezeThread stops a thread and returns its children. It freezes the conversation first and waits for its actions in progress:
// the calls that it was making are made.
func (mg *Migrator) freezeThread(ctx context.Context, migration, thread string) (children []string, err error) {
	if mg.threads != nil {
		err := mg.threads.Freeze(ctx, thread, migration)
		if err == nil {
			var e *conversation.Export
			if e, err = mg.threads.Export(ctx, thread, migration); err == nil {
				children = e.State.Children
			}
		}
		if err != nil && !errors.Is(err, conversation.ErrUnknownThread) {
			return nil, err
		}
	}
	return children, mg.program.Freeze(ctx, thread, migration)
}

// commitThread ends the migration of a thread that has left, or has arrived. It commits the calls first, because the conversation
// goes on with them.
func (mg *Migrator) commitThread(ctx context.Context, migration, thread string) error {
	err := mg.program.Commit(ctx, thread, migration)
	if err == nil && mg.threads != nil {
		err = unlessUnknown(mg.threads.Commit(ctx, thread, migration))
	}
	return err
}

// abortThread takes back the migration of a thread.
func (mg *Migrator) abortThread(ctx context.Context, migration, thread string) error {
	err := mg.program.Abort(ctx, thread, migration)
	if err == nil && mg.threads != nil {
		err = unlessUnknown(mg.threads.Abort(ctx, thread, migration))
	}
	return err
}

// unlessUnknown returns err unless it says that the runtime's conversations do not include the thread: then another program holds
// its conversation.
func unlessUnknown(err error) error {
	if errors.Is(err, conversation.ErrUnknownThread) {
		return nil
	}
	return err
}

// exportThread returns a complete frozen thread.
func (mg *Migrator) exportThread(ctx context.Context, migration, thread string) (*threadExport, error) {
	calls, err := mg.program.Export(ctx, thread, migration)
	if err != nil {
		return nil, err
	}
	out := &threadExport{Thread: thread, Calls: calls, Toolsets: map[string]string{}}
	for i, c := range calls.Calls {
		open := *c
		if err := mg.openForTransfer(&open); err != nil {
			return nil, fmt.Errorf("call %s: %w", quote.Text(c.Key.ID), err)
		}
		calls.Calls[i] = &open
		if s := mg.Peers.Named(c.Server); s != nil {
			if set := mg.Catalog.Last(s); set != nil {
				out.Toolsets[c.Key.ID] = set.Manifest.Name
			}
		}
	}
	if mg.threads == nil {
		return out, nil
	}
	out.Conversation, err = mg.threads.Export(ctx, thread, migration)
	return out, unlessUnknown(err)
}

// openForTransfer opens what only this runtime can open: the addresses that the user was sent to. The result goes into a sealed
// message.
func (mg *Migrator) openForTransfer(c *agentproto.CallSnapshot) error {
	if c.Detour != nil && c.Detour.OAuth != nil {
		o, err := capability.OpenOAuth(mg.Sealer, c.Detour.OAuth)
		if err != nil {
			return err
		}
		d := *c.Detour
		d.OAuth = o
		c.Detour = &d
	}
	c.Held = slices.Clone(c.Held)
	for i := range c.Held {
		if err := mg.openRelayed(&c.Held[i]); err != nil {
			return err
		}
	}
	return nil
}

// openRelayed is openForTransfer for an input of a call.
func (mg *Migrator) openRelayed(r *agentproto.Relayed) error {
	if r.Event.Kind != agentproto.OAuthArrived {
		return nil
	}
	o, err := capability.OpenOAuth(mg.Sealer, r.Event.OAuth)
	r.Event.OAuth = o
	return err
}

// sealRelayed is the inverse of openRelayed, at the destination.
func (mg *Migrator) sealRelayed(r *agentproto.Relayed) error {
	if r.Event.Kind != agentproto.OAuthArrived {
		return nil
	}
	sealed, err := capability.SealOAuth(mg.Sealer, r.Event.OAuth)
	r.Event.OAuth, r.Event.Detour = sealed.OAuth, sealed.Detour
	return err
}

// importThread stages a thread.
func (mg *Migrator) importThread(ctx context.Context, migration string, t *threadExport) error {
	if err := capability.CheckID("thread", t.Thread); err != nil {
		return err
	}
	if c := t.Conversation; t.Calls.Migration != migration || t.Calls.GroupID != t.Thread || c != nil && (c.State.Move.Transfer != migration || c.Thread != t.Thread) {
		return errors.New("what is there of it belongs to another thread or migration")
	}
	if t.Conversation != nil {
		if mg.threads == nil {
			return ErrNoModel
		}
		if err := mg.threads.Stage(ctx, t.Conversation); err != nil {
			return err
		}
	}
	for _, c := range t.Calls.Calls {
		if err := mg.importCall(ctx, c, t.Toolsets[c.Key.ID]); err != nil {
			return fmt.Errorf("call %s: %w", quote.Text(c.Key.ID), err)
		}
	}
	return mg.program.Stage(ctx, t.Calls)
}

// validFor returns how long the callback URL of an arriving call is valid: while the call lasts, and for a time after it. Both may be
// as long as a duration can say, so each is limited, and the sum can be added to a time.
func validFor(remaining, after time.Duration) time.Duration {
	return min(remaining, capability.MaxLifetime) + min(after, capability.MaxLifetime)
}

// importCall adapts an arriving call to this host, and seals what only this runtime can seal.
func (mg *Migrator) importCall(ctx context.Context, c *agentproto.CallSnapshot, toolset string) error {
	s := mg.Catalog.WithToolset(ctx, toolset)
	if d := c.Detour; d != nil && d.OAuth != nil {
		sealed, err := capability.SealOAuth(mg.Sealer, d.OAuth)
		if err != nil {
			return err
		}
		d.OAuth, d.ID = sealed.OAuth, sealed.Detour
	}
	for i := range c.Held {
		if err := mg.sealRelayed(&c.Held[i]); err != nil {
			return err
		}
	}
	if c.Call != nil && s != nil {
		url, err := capability.Capability{
			Server: s.ID, Key: c.Key, Allowed: capability.MayAll, Incarnation: c.Call.Incarnation,
			Expires: time.Now().Add(validFor(c.Remaining, mg.Callback)), Lifetime: cmp.Or(c.Call.Lifetime, c.Remaining),
		}.URL(mg.Sealer, mg.publicURL)
		if err != nil {
			return err
		}
		c.Call.Invocation.CallbackURL = url
		c.Call.Server = s.Name()
	}
	if c.Server = ""; s != nil {
		c.Server = s.Name()
	}
	if c.Subscribed {
		mg.Subscriptions.Arrive(c.Key)
	}
	return nil
}

// arrived lets a thread go on that has arrived here.
func (mg *Migrator) arrived(ctx context.Context, migration string, t arrival) error {
	if err := mg.ports.place(ctx, migration, t.Thread, ""); err != nil {
		return err
	}
	if err := mg.commitThread(ctx, migration, t.Thread); err != nil || t.Closed || mg.threads == nil {
		return err
	}
	st, err := mg.threads.Status(ctx, t.Thread)
	for viewType, content := range st.Views { // the surface here has not shown them
		v := &agentproto.ViewUpdate{GroupID: t.Thread, ViewType: viewType, Content: content}
		if err := mg.Display.View(agentproto.CallKey{GroupID: t.Thread}, v); err != nil {
			mg.Log.Warn("view of a session that came is not shown", "thread", quote.Text(t.Thread), "error", err)
		}
	}
	return unlessUnknown(err)
}

// HandOn forwards an input of a call that has moved away, until the other host has accepted it, as [agentproto.ProgramOptions]
// requires.
func (mg *Migrator) HandOn(ctx context.Context, f *agentproto.Forwarded) {
	select {
	case <-mg.Running:
	case <-ctx.Done():
		return
	}
	open := *f
	if err := mg.openRelayed(&open.Relayed); err != nil {
		mg.Log.Error("what happened to a call that has moved cannot be handed on", quote.Call(f.Key), "error", err)
		return
	}
	again := edge.Curve{First: []time.Duration{time.Second}, Most: time.Minute}
	for failed := 1; ; failed++ {
		var err error
		switch host, moves := mg.ports.placeOf(f.Key.GroupID); {
		case host == "" && moves == 0: // it was never here, except for a migration that was taken back
			return
		case host == "": // it has come back
			err = mg.program.Relay(ctx, f)
		default:
			_, err = mg.tellHost(ctx, host, &migrationMessage{Session: f.Key.GroupID, Relay: &open})
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		mg.Log.Warn("what happened to a call that has moved is not handed on yet", quote.Call(f.Key), "error", err)
		if !again.Wait(ctx, failed, 0, nil) {
			return
		}
	}
}
