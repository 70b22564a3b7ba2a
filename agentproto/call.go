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

	// Rejected, if not empty, resolves the call at once with an error of this text.
	// The call is not dispatched.
	Rejected string

	// Lifetime is how long the call may wait for its tool_result. It does not run during a detour, which has a timeout of its
	// own. After a user choice is answered, the call waits for [Event].Lifetime instead. Zero means the Lifetime of
	// [ProgramOptions].
	Lifetime time.Duration
	// Made is when the call was made. A snapshot needs it to compute the rest of the lifetime. If it is zero, the whole lifetime
	// starts again when the call moves.
	Made time.Time

	// Told says that the flow itself delivers the result to the call's thread, so nobody has to read it elsewhere.
	Told bool

	// Incarnation distinguishes the call from an earlier, forgotten call with the same key: see [Event].Incarnation. It is a
	// random number whose lowest 16 bits are zero, because detours are numbered from it. It is zero where keys are never reused.
	Incarnation uint64

	// Trace is the span that made the call. Later spans of the call follow it.
	Trace Trace `json:",omitzero"`
}

// Is reports whether an incarnation is that of this call, even if the call has moved since.
func (c *Call) Is(incarnation uint64) bool { return sameCall(c.Incarnation, incarnation) }

// operation returns the name of the tool, or "" for a call without an invocation.
func (c *Call) operation() string {
	if c.Invocation == nil {
		return ""
	}
	return c.Invocation.Operation
}

// A State is the stage that a call is in.
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

// A DispatchOutcome is the outcome of posting an invocation.
type DispatchOutcome struct {
	// Accepted says that the tool server answered 2xx.
	Accepted bool
	// Ambiguous says that the tool server may have started the call although it did not acknowledge it. The call must then also
	// be cancelled there.
	Ambiguous bool
	// Reason describes the failure when the call was not accepted.
	Reason string
	// Watch, if not empty, is the Server of an accepted call that is to be watched: see [ProgramOptions].Watch.
	Watch string
}

// Dispatch posts an invocation to its tool server. It retries as it sees fit and returns when the server has acknowledged the
// invocation or Dispatch has given up.
type Dispatch func(ctx context.Context, call *Call) DispatchOutcome
