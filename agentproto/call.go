package agentproto

import (
	"context"
	"time"
)

// A CallKey names one tool call. The protocol promises that an id is unique
// within its thread and nothing more, so neither half is a key alone.
type CallKey struct {
	GroupID string // the conversation thread
	ID      string // the tool call within it
}

// String returns the key as group/id, for logs and tables.
func (k CallKey) String() string { return k.GroupID + "/" + k.ID }

// A Call is one tool call as the [Program] sees it.
type Call struct {
	Key        CallKey
	Invocation *Invocation // what is posted; never changed after [Program.Call]
	Endpoint   string      // where it is posted: the toolset's manifest endpoint
	Server     string      // names the tool server, for the runtime

	// Rejected, if not empty, is the text of the error that resolves the call at
	// once. Nothing is dispatched then.
	Rejected string

	// Lifetime is how long the call may wait for its tool_result. While the call is in
	// a detour the detour's timeout holds instead, and when a user choice has been
	// answered the call has [Event].Lifetime again. Zero means that of [ProgramOptions].
	Lifetime time.Duration
	// Made is when the call was made: how much of its lifetime is left is part of a
	// snapshot. Zero means that it has its whole lifetime again when it moves.
	Made time.Time

	// Told says that the result is for the thread of the call, which is told of it by the flow itself:
	// nobody has to read it elsewhere.
	Told bool

	// Incarnation tells the call from an earlier one with its key that was forgotten: see
	// [Event].Incarnation. It is a random number whose lowest 16 bits are zero, since detours are
	// numbered from it, or zero where no key is used again.
	Incarnation uint64

	// Trace is the span that made the call, which what happens to it follows.
	Trace Trace `json:",omitzero"`
}

// Is reports whether an incarnation is that of the call, wherever the call has moved since.
func (c *Call) Is(incarnation uint64) bool { return sameCall(c.Incarnation, incarnation) }

// operation returns the name of the tool, or "" for a call without an invocation.
func (c *Call) operation() string {
	if c.Invocation == nil {
		return ""
	}
	return c.Invocation.Operation
}

// A State is where a call stands.
type State uint8

// The states of a call, in the words of the protocol.
const (
	Pending       State = iota // dispatched or about to be; no result yet
	OAuthPending               // the user has to authorize the tool first
	ChoicePending              // the user has to choose something first
	Completed                  // resolved, for good
)

// String returns the state in the words of the protocol.
func (s State) String() string {
	return [...]string{"pending", "oauth pending", "choice pending", "completed"}[s]
}

// A DispatchOutcome says what came of posting an invocation.
type DispatchOutcome struct {
	// Accepted says that the tool server answered 2xx.
	Accepted bool
	// Ambiguous says that the tool server may have started the call although it
	// did not acknowledge it, so the call has to be cancelled as well.
	Ambiguous bool
	// Reason describes the failure when the call was not accepted.
	Reason string
	// Watch, if not empty, has an accepted call be watched: see [ProgramOptions].Watch. It
	// is the call's Server.
	Watch string
}

// Dispatch posts an invocation to its tool server. It retries as it sees fit and
// returns when the invocation is acknowledged or given up.
type Dispatch func(ctx context.Context, call *Call) DispatchOutcome
