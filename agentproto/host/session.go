package host

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/display"
	"github.com/millrace/millrace/agentproto/host/internal/migration"
)

// ErrNoModel is returned by the methods that need [Options].Model if it is nil.
var ErrNoModel = migration.ErrNoModel

// A SessionRequest describes the session to open.
type SessionRequest struct {
	// ID is the identifier of its root thread. It is required.
	ID string
	// UserID identifies the user to tools. Empty means that tools do not learn who the user is.
	UserID string
	// Images says that the model takes images. Otherwise each image of a result becomes a text.
	Images bool
	// Instructions are for the model and precede the conversation.
	Instructions string
	// Model names the model that answers, if [Options].Model is a [conversation.Models]. Empty means the default.
	Model string
}

// OpenSession opens the root thread of a conversation. A thread that is already open stays as it was first opened. The error is
// [ErrFull] if there is no memory for a new one, and [ErrElsewhere] for a session that has moved to another host or is moving there.
func (rt *Runtime) OpenSession(ctx context.Context, req SessionRequest) (*Thread, error) {
	if err := capability.CheckID("session", req.ID); err != nil {
		return nil, err
	}
	if req.UserID != "" {
		if err := capability.CheckOther("user", req.UserID); err != nil {
			return nil, err
		}
	}
	if err := rt.converses(); err != nil {
		return nil, err
	}
	if err := rt.isHere(req.ID); err != nil {
		return nil, err
	}
	if models, ok := rt.opts.Model.(*conversation.Models); req.Model != "" && (!ok || !models.Has(req.Model)) {
		return nil, fmt.Errorf("%w: %q", ErrUnknownModel, req.Model)
	}
	if err := rt.memory.Full(); err != nil {
		if _, unknown := rt.threads.Status(ctx, req.ID); unknown != nil {
			return nil, err
		}
	}
	_, err := rt.threads.Open(ctx, conversation.Session{
		ID: req.ID, UserID: req.UserID, Images: req.Images, Instructions: req.Instructions, Model: req.Model,
	})
	if err != nil {
		return nil, programError(err)
	}
	return rt.Thread(req.ID), nil
}

// converses returns why the runtime cannot work on conversations, or nil.
func (rt *Runtime) converses() error {
	switch {
	case rt.threads == nil:
		return ErrNoModel
	case rt.stopping.Load():
		return ErrStopped
	}
	return nil
}

// A host makes the calls of conversations. It is the [conversation.Host] of a runtime.
type host struct{ rt *Runtime }

// Tools returns the tools that a session is offered.
func (h host) Tools(ctx context.Context, s *conversation.Session) []conversation.Tool {
	offered, _, err := h.rt.ToolsOf(ctx, s.Root())
	if err != nil {
		return nil
	}
	tools := make([]conversation.Tool, 0, len(offered))
	for _, t := range offered {
		tools = append(tools, conversation.Tool{Name: t.Name, Toolset: t.Toolset, Description: t.Description, Schema: t.InputSchema})
	}
	return tools
}

// MakeCall makes a call, unless it was made already.
func (h host) MakeCall(ctx context.Context, thread string, c *conversation.ThreadCall) error {
	_, err := h.rt.Call(ctx, requestOf(thread, c))
	if errors.Is(err, ErrDuplicateCall) {
		return nil
	}
	return h.later(ctx, err)
}

// later waits until ctx ends if the runtime has stopped and has a State. The thread's action then has no outcome and is performed
// again after the restart.
func (h host) later(ctx context.Context, err error) error {
	err = programError(err)
	if errors.Is(err, ErrStopped) && h.rt.opts.State != nil {
		<-ctx.Done()
	}
	return err
}

// keepView passes a view to its thread, if the runtime holds conversations. If the view is a progress report, it also notifies
// those that wait for the progress of the call.
func (rt *Runtime) keepView(ctx context.Context, from agentproto.CallKey, v *agentproto.ViewUpdate) error {
	if v.ViewType == agentproto.ProgressView && !display.Cleared(v) {
		if p, ok := agentproto.ProgressOf(v.Content); ok {
			rt.trail.Report(from, p)
			rt.changes.Tell(from)
		}
	}
	if rt.threads == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, rt.opts.Timeouts.Accept)
	defer cancel()
	if err := rt.threads.View(ctx, v); err != nil {
		return err
	}
	content := v.Content.Clone()
	if display.Cleared(v) {
		content = nil
	}
	rt.live.View(v.GroupID, v.ViewType, content)
	return nil
}

func requestOf(thread string, c *conversation.ThreadCall) Request {
	req := Request{
		GroupID: thread, ID: c.ID, CallID: c.CallID, Operation: c.Name,
		UserID: c.UserID, ThreadAncestors: c.Ancestors, told: true,
	}
	if c.Arguments != "" {
		req.Arguments = jsontext.Value(c.Arguments)
	}
	return req
}

// CancelCall interrupts a call. If the call was not made yet, CancelCall puts a rejected call under its key, so that it cannot be
// made later.
func (h host) CancelCall(ctx context.Context, thread string, c *conversation.ThreadCall) error {
	key := agentproto.CallKey{GroupID: thread, ID: c.ID}
	never := &agentproto.Call{
		Key: key, Invocation: &agentproto.Invocation{GroupID: thread, ID: c.ID, Operation: c.Name},
		Rejected: "it was interrupted before it was made",
	}
	err := programError(h.rt.program.Call(ctx, never))
	_, lasts := h.rt.program.Lasting(key) // its key may be forgotten although the call lasts
	if errors.Is(err, ErrDuplicateCall) || err == nil && lasts {
		err = h.rt.deliverTo(ctx, key, agentproto.Event{Kind: agentproto.Interrupted})
	}
	return h.later(ctx, err)
}

// EndSubscription ends a subscription; the program notifies the tool servers.
func (h host) EndSubscription(ctx context.Context, thread, callID string) error {
	key := agentproto.CallKey{GroupID: thread, ID: callID}
	return h.later(ctx, h.rt.deliverTo(ctx, key, agentproto.Event{Kind: agentproto.SubscriptionCancelled}))
}

// EndThread closes a thread for its calls.
func (h host) EndThread(ctx context.Context, thread string) error {
	return h.later(ctx, h.rt.CloseThread(ctx, thread))
}

// HoldEvents slows down the events of a thread whose model cannot keep up.
func (h host) HoldEvents(_ context.Context, thread string, number uint64, hold bool) error {
	h.rt.intake.Hold(thread, number, hold)
	return nil
}
