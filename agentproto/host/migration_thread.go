package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/internal/edge"
)

// What a migration does to one thread: its conversation, if it is one of this runtime's
// model, and its calls. Each of these can be done twice.

// freezeThread stops a thread and returns its children. The conversation is first, and
// what it had under way is waited for: the calls that it was making are made.
func (rt *Runtime) freezeThread(ctx context.Context, migration, thread string) (children []string, err error) {
	if rt.threads != nil {
		err := rt.threads.Freeze(ctx, thread, migration)
		if err == nil {
			var e *conversation.Export
			if e, err = rt.threads.Export(ctx, thread, migration); err == nil {
				children = e.State.Children
			}
		}
		if err != nil && !errors.Is(err, conversation.ErrUnknownThread) {
			return nil, err
		}
	}
	return children, rt.program.Freeze(ctx, thread, migration)
}

// commitThread ends the migration of a thread that has left, or has come: its calls first, which the conversation goes on with.
func (rt *Runtime) commitThread(ctx context.Context, migration, thread string) error {
	err := rt.program.Commit(ctx, thread, migration)
	if err == nil && rt.threads != nil {
		err = unlessUnknown(rt.threads.Commit(ctx, thread, migration))
	}
	return err
}

// abortThread takes the migration of a thread back.
func (rt *Runtime) abortThread(ctx context.Context, migration, thread string) error {
	err := rt.program.Abort(ctx, thread, migration)
	if err == nil && rt.threads != nil {
		err = unlessUnknown(rt.threads.Abort(ctx, thread, migration))
	}
	return err
}

// unlessUnknown returns err unless it says that the runtime's model has no such thread: it
// is one of somebody else's loop then.
func unlessUnknown(err error) error {
	if errors.Is(err, conversation.ErrUnknownThread) {
		return nil
	}
	return err
}

// exportThread returns all of a frozen thread.
func (rt *Runtime) exportThread(ctx context.Context, migration, thread string) (*threadExport, error) {
	calls, err := rt.program.Export(ctx, thread, migration)
	if err != nil {
		return nil, err
	}
	out := &threadExport{Thread: thread, Calls: calls, Toolsets: map[string]string{}}
	for i, c := range calls.Calls {
		open := *c
		if err := rt.openForTransfer(&open); err != nil {
			return nil, fmt.Errorf("call %s: %w", quoted(c.Key.ID), err)
		}
		calls.Calls[i] = &open
		if s := rt.serverOf(c.Server); s != nil {
			if set := s.lastGood(); set != nil {
				out.Toolsets[c.Key.ID] = set.manifest.Name
			}
		}
	}
	if rt.threads == nil {
		return out, nil
	}
	out.Conversation, err = rt.threads.Export(ctx, thread, migration)
	return out, unlessUnknown(err)
}

// openForTransfer opens what only this runtime can open: addresses that the user was sent
// to. It goes into a sealed message.
func (rt *Runtime) openForTransfer(c *agentproto.CallSnapshot) error {
	if c.Detour != nil && c.Detour.OAuth != nil {
		o, err := rt.openOAuth(c.Detour.OAuth)
		if err != nil {
			return err
		}
		d := *c.Detour
		d.OAuth = o
		c.Detour = &d
	}
	c.Held = slices.Clone(c.Held)
	for i := range c.Held {
		if err := rt.openRelayed(&c.Held[i]); err != nil {
			return err
		}
	}
	return nil
}

// openRelayed is openForTransfer for something that happened to a call.
func (rt *Runtime) openRelayed(r *agentproto.Relayed) error {
	if r.Event.Kind != agentproto.OAuthArrived {
		return nil
	}
	o, err := rt.openOAuth(r.Event.OAuth)
	r.Event.OAuth = o
	return err
}

// sealRelayed is its inverse, at the destination.
func (rt *Runtime) sealRelayed(r *agentproto.Relayed) error {
	if r.Event.Kind != agentproto.OAuthArrived {
		return nil
	}
	sealed, err := rt.sealOAuth(r.Event.OAuth)
	r.Event.OAuth, r.Event.Detour = sealed.OAuth, sealed.Detour
	return err
}

// importThread stages a thread.
func (rt *Runtime) importThread(ctx context.Context, migration string, t *threadExport) error {
	if err := checkID("thread", t.Thread); err != nil {
		return err
	}
	if c := t.Conversation; t.Calls.Migration != migration || t.Calls.GroupID != t.Thread || c != nil && (c.State.Move.Transfer != migration || c.Thread != t.Thread) {
		return errors.New("what is there of it belongs to another thread or migration")
	}
	if t.Conversation != nil {
		if rt.threads == nil {
			return ErrNoModel
		}
		if err := rt.threads.Stage(ctx, t.Conversation); err != nil {
			return err
		}
	}
	for _, c := range t.Calls.Calls {
		if err := rt.importCall(ctx, c, t.Toolsets[c.Key.ID]); err != nil {
			return fmt.Errorf("call %s: %w", quoted(c.Key.ID), err)
		}
	}
	return rt.program.Stage(ctx, t.Calls)
}

// importCall makes what comes of a call what it is here, with what only this runtime can seal.
func (rt *Runtime) importCall(ctx context.Context, c *agentproto.CallSnapshot, toolset string) error {
	s := rt.serverNamed(ctx, toolset)
	if d := c.Detour; d != nil && d.OAuth != nil {
		sealed, err := rt.sealOAuth(d.OAuth)
		if err != nil {
			return err
		}
		d.OAuth, d.ID = sealed.OAuth, sealed.Detour
	}
	for i := range c.Held {
		if err := rt.sealRelayed(&c.Held[i]); err != nil {
			return err
		}
	}
	if c.Call != nil && s != nil {
		segments, err := capability{
			server: s.id, key: c.Key, allowed: mayAll, incarnation: c.Call.Incarnation,
			expires: time.Now().Add(c.Remaining + rt.opts.Timeouts.Callback), lifetime: cmp.Or(c.Call.Lifetime, c.Remaining),
		}.seal(rt.sealer)
		if err != nil {
			return err
		}
		c.Call.Invocation.CallbackURL = rt.publicURL + callbackPath + segments
		c.Call.Server = s.name()
	}
	if c.Server = ""; s != nil {
		c.Server = s.name()
	}
	if c.Subscribed {
		rt.subscribed.arrive(c.Key)
	}
	return nil
}

// arrived lets a thread go on that came here.
func (rt *Runtime) arrived(ctx context.Context, migration string, t arrival) error {
	if err := rt.moves.ports.place(ctx, migration, t.Thread, ""); err != nil {
		return err
	}
	if err := rt.commitThread(ctx, migration, t.Thread); err != nil || t.Closed || rt.threads == nil {
		return err
	}
	st, err := rt.threads.Status(ctx, t.Thread)
	for viewType, content := range st.Views { // the surface here has not seen them
		v := &agentproto.ViewUpdate{GroupID: t.Thread, ViewType: viewType, Content: content}
		show := func(_ context.Context, s Surface) { s.View(agentproto.CallKey{GroupID: t.Thread}, v) }
		if err := rt.views.put(v, func() bool { return rt.shown.tryPush(show, maxViews) }); err != nil {
			rt.log.Warn("view of a session that came is not shown", "thread", quoted(t.Thread), "error", err)
		}
	}
	return unlessUnknown(err)
}

// forward hands on what a call that is elsewhere was told, until that is taken in there, as
// [agentproto.ProgramOptions] asks.
func (rt *Runtime) forward(ctx context.Context, f *agentproto.Forwarded) {
	select {
	case <-rt.running:
	case <-ctx.Done():
		return
	}
	open := *f
	if err := rt.openRelayed(&open.Relayed); err != nil {
		rt.log.Error("what happened to a call that has moved cannot be handed on", keyAttr(f.Key), "error", err)
		return
	}
	again := edge.Curve{First: []time.Duration{time.Second}, Most: time.Minute}
	for failed := 1; ; failed++ {
		var err error
		switch host, moves := rt.moves.ports.placeOf(f.Key.GroupID); {
		case host == "" && moves == 0: // it never was here, but for a migration that was taken back
			return
		case host == "": // it has come back
			err = rt.program.Relay(ctx, f)
		default:
			_, err = rt.tellHost(ctx, host, &migrationMessage{Session: f.Key.GroupID, Relay: &open})
		}
		if err == nil || ctx.Err() != nil {
			return
		}
		rt.log.Warn("what happened to a call that has moved is not handed on yet", keyAttr(f.Key), "error", err)
		if !again.Wait(ctx, failed, 0, nil) {
			return
		}
	}
}
