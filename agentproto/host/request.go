package host

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quote"
	"github.com/millrace/millrace/agentproto/host/internal/tally"
	"github.com/millrace/millrace/agentproto/internal/tracing"
	"github.com/millrace/millrace/dataflow"
)

// A Request is a request to make a tool call.
type Request struct {
	// GroupID is the thread of the conversation. It is required.
	GroupID string
	// ID is the identifier of the call, unique within its thread. Empty means a new random one that cannot be guessed.
	ID string
	// Operation is the name of a tool.
	Operation string
	// Arguments are the arguments of the call, a JSON object. Nil means an empty one.
	Arguments jsontext.Value
	// UserID identifies the end user to the tool. Empty means that the tool does not learn who the user is.
	UserID string
	// CallID is the second identifier that some model APIs have. Empty means none.
	CallID string
	// ThreadAncestors are the threads from the root to the parent of GroupID. It is empty for a root thread.
	ThreadAncestors []string
	// Lifetime is how long the call may wait for its result, not counting detours. Zero means [Timeouts].Call, or LongCall for a
	// tool annotated longRunning. More than 100 years count as 100 years.
	Lifetime time.Duration

	told bool // the result goes to the conversation, and nobody else reads it
}

// session returns the session of the call: its root thread.
func (r *Request) session() string {
	if len(r.ThreadAncestors) > 0 {
		return r.ThreadAncestors[0]
	}
	return r.GroupID
}

// Call makes a call and returns its key. The first call of a session waits for the manifests, see [Runtime.ToolsOf]. Otherwise
// Call returns before the tool server was asked, and [Runtime.Await] returns the outcome.
//
// A call of an unknown tool, or with arguments that do not fit the tool's schema, is resolved at once, with an error that the
// model can read. If a tool server whose manifest is unknown cannot be reached, a call of a tool that no other server has waits
// for it as long as a dispatch would, see [Timeouts].Retry and Dispatch. Then it is resolved with an error that says so.
//
// If no call was made, the error is [ErrBadID], [ErrDuplicateCall], [ErrElsewhere], [ErrFull] or [ErrStopped]. On a full disk Call
// waits until ctx ends. Such a call may be made later; a repeated Call with the same ID then returns ErrDuplicateCall.
func (rt *Runtime) Call(ctx context.Context, req Request) (agentproto.CallKey, error) {
	if req.ID == "" {
		req.ID = rand.Text()
	}
	key := agentproto.CallKey{GroupID: req.GroupID, ID: req.ID}
	if err := checkRequest(&req); err != nil {
		return key, err
	}
	if err := rt.isHere(req.GroupID); err != nil {
		return key, err
	}
	if !req.told { // a conversation was accepted with its session
		if err := rt.memory.Full(); err != nil {
			return key, err
		}
	}
	ctx, span := tracing.Start(ctx, rt.opts.Tracer, agentproto.SpanStart{Name: agentproto.SpanCall, Key: key, Operation: req.Operation})
	if err := rt.call(ctx, key, &req, span.Trace()); err != nil {
		span.End(err.Error(), true)
		return key, err
	}
	span.End("made", false)
	return key, nil
}

// call makes a call after the checks.
func (rt *Runtime) call(ctx context.Context, key agentproto.CallKey, req *Request, trace agentproto.Trace) error {
	call, s, err := rt.prepare(ctx, req, trace)
	if err != nil {
		return err
	}
	if err := rt.isHere(req.GroupID); err != nil { // the thread may have left in the meantime
		return err
	}
	_, resolved := rt.program.Resolved(key)
	if _, lasts := rt.program.Lasting(key); resolved || lasts {
		return fmt.Errorf("host: call %s: %w", quote.Text(key.String()), ErrDuplicateCall)
	}
	if err := rt.program.Call(ctx, call); err != nil {
		return fmt.Errorf("host: call %s: %w", quote.Text(key.String()), programError(err))
	}
	rt.knows(key)
	rt.peers.Count(s, tally.Calls)
	rt.trail.NoteAt(key, call.Made, "made", req.Operation)
	return nil
}

// isHere returns why this runtime cannot work on a thread, or nil.
func (rt *Runtime) isHere(groupID string) error {
	if rt.stopping.Load() {
		return ErrStopped
	}
	if rt.moves.IsFrozen(groupID) {
		return fmt.Errorf("%w: %s is on its way to another host", ErrMoving, quote.Text(groupID))
	}
	return rt.moves.LeftTo(groupID)
}

// checkRequest checks the identifiers of a request.
func checkRequest(req *Request) error {
	if err := capability.CheckID("thread", req.GroupID); err != nil {
		return err
	}
	if err := capability.CheckID("call", req.ID); err != nil {
		return err
	}
	for _, id := range req.ThreadAncestors {
		if err := capability.CheckID("ancestor", id); err != nil {
			return err
		}
	}
	if req.UserID != "" {
		if err := capability.CheckOther("user", req.UserID); err != nil {
			return err
		}
	}
	if req.CallID != "" {
		return capability.CheckOther("call_id", req.CallID)
	}
	return nil
}

// prepare makes the call of a request: one to dispatch, or a rejected one.
func (rt *Runtime) prepare(ctx context.Context, req *Request, trace agentproto.Trace) (*agentproto.Call, *peer.Server, error) {
	inv := &agentproto.Invocation{
		Operation: req.Operation, Arguments: req.Arguments.Clone(),
		ID: req.ID, GroupID: req.GroupID, ThreadAncestors: slices.Clone(req.ThreadAncestors),
	}
	if inv.Arguments == nil {
		inv.Arguments = jsontext.Value("{}")
	}
	if req.UserID != "" {
		inv.UserID = &req.UserID
	}
	if req.CallID != "" {
		inv.CallID = &req.CallID
	}
	call := &agentproto.Call{Key: inv.Key(), Invocation: inv, Lifetime: req.Lifetime, Made: time.Now(), Incarnation: mathrand.Uint64() << 16, Told: req.told, Trace: trace}

	tool, missing, err := rt.catalog.ToolOf(ctx, req.session(), req.Operation)
	if err != nil {
		return nil, nil, err
	}
	if tool == nil {
		call.Rejected = missing
		return call, nil, nil
	}
	call.Server = tool.Server.Name()
	if call.Rejected = tool.Refuses(inv.Arguments); call.Rejected != "" {
		return call, tool.Server, nil
	}
	if call.Lifetime == 0 {
		call.Lifetime = rt.opts.Timeouts.Call
		if tool.Annotations.LongRunning {
			call.Lifetime = rt.opts.Timeouts.LongCall
		}
	}
	call.Lifetime = min(call.Lifetime, capability.MaxLifetime)
	c := capability.Capability{
		Server: tool.Server.ID, Key: call.Key, Allowed: capability.MayAll, Incarnation: call.Incarnation,
		Expires: time.Now().Add(call.Lifetime + min(rt.opts.Timeouts.Callback, capability.MaxLifetime)), Lifetime: call.Lifetime, Trace: trace,
	}
	if inv.CallbackURL, err = c.URL(rt.sealer, rt.publicURL); err != nil {
		return nil, nil, err
	}
	call.Endpoint = tool.Endpoint
	return call, tool.Server, nil
}

// Await returns the resolution of a call as soon as it exists, or [ErrStopped] if the call will not be resolved. For a key that
// is never used it waits until ctx ends. A result of more than 1 KiB is kept for ten minutes after it was awaited; after that its
// text gives only its size.
func (rt *Runtime) Await(ctx context.Context, key agentproto.CallKey) (*agentproto.Resolution, error) {
	r, err := rt.program.Await(ctx, key)
	if err == nil {
		rt.wasRead(r)
	}
	return r, programError(err)
}

// Cancel resolves a pending call as interrupted by the user and notifies all tool servers. It has no effect on a resolved call.
func (rt *Runtime) Cancel(ctx context.Context, key agentproto.CallKey) error {
	return rt.deliver(ctx, key, agentproto.Event{Kind: agentproto.Interrupted})
}

// CloseThread resolves all pending calls of a thread, and every later one at once, and notifies all tool servers. The error is
// [ErrElsewhere] for a thread that has moved or is moving.
func (rt *Runtime) CloseThread(ctx context.Context, groupID string) error {
	if err := capability.CheckID("thread", groupID); err != nil {
		return err
	}
	if err := rt.isHere(groupID); err != nil {
		return err
	}
	if err := rt.program.CloseThread(ctx, groupID); err != nil {
		return programError(err)
	}
	rt.display.Forget(groupID)
	rt.peers.CloseEverywhere(groupID)
	return nil
}

// deliver passes an event to the program, which has to accept it within Timeouts.Accept.
func (rt *Runtime) deliver(ctx context.Context, key agentproto.CallKey, e agentproto.Event) error {
	if rt.stopping.Load() {
		return ErrStopped
	}
	ctx, cancel := context.WithTimeout(ctx, rt.opts.Timeouts.Accept)
	defer cancel()
	return programError(rt.deliverTo(ctx, key, e))
}

// programError converts an error of the program to one of this package.
func programError(err error) error {
	switch {
	case errors.Is(err, dataflow.ErrDuplicateKey):
		return ErrDuplicateCall
	case errors.Is(err, dataflow.ErrClosed), errors.Is(err, io.EOF):
		return ErrStopped
	}
	return err
}
