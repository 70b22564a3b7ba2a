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

	// Rejected, if not empty, is the text of the error that resolves the call at
	// once. Nothing is dispatched then.
	Rejected string

	// Lifetime is how long the call may wait for its tool_result. While the call is in
	// a detour the detour's timeout holds instead, and when a user choice has been
	// answered the call has [Event].Lifetime again. Zero means that of [ProgramOptions].
	Lifetime time.Duration
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
}

// Dispatch posts an invocation to its tool server. It retries as it sees fit and
// returns when the invocation is acknowledged or given up.
type Dispatch func(ctx context.Context, call *Call) DispatchOutcome

// An EventKind says what happened to a call.
type EventKind uint8

// What can happen to a call from outside. The program adds timers and dispatch
// outcomes of its own.
const (
	ResultArrived  EventKind = iota + 1 // Event.Result
	OAuthArrived                        // Event.OAuth, Event.Timeout
	ChoiceArrived                       // Event.Choice, Event.Timeout
	ChoiceAnswered                      // Event.Detour, Event.Selected
	AnswerFailed                        // Event.Detour, Event.Reason: the answer could not be delivered to the tool
	Interrupted                         // the user cancelled the call
	Malformed                           // Event.Reason: the tool posted something unusable that identifies this call

	notAccepted     // event.Outcome
	lifetimeExpired // event.Seq: the event after which it started again, or 0
	detourExpired   // event.Seq: the event that opened the detour
	threadClosed
)

// An Event is something that happened to one call.
type Event struct {
	Kind     EventKind
	Result   *ToolResult
	OAuth    *OAuth
	Choice   *UserChoice
	Detour   string // which detour is meant: its auth_url or response_url
	Selected int    // index into the choices
	Reason   string

	// Timeout is how long the user may take for the detour that the event opens.
	// Zero means 10 minutes for OAuth and 24 hours for a choice.
	Timeout time.Duration

	// Lifetime, of ChoiceArrived and ChoiceAnswered, is how long the call may wait for
	// its result again when the choice has been answered. Zero means that of
	// [ProgramOptions].
	Lifetime time.Duration
}

// An event is an Event inside the program. Its fields are exported because they are part
// of a history that is kept.
type event struct {
	Event
	Outcome DispatchOutcome // of notAccepted
	Seq     uint64          // tells events apart that are alike, so that each has a timer of its own
}

// An EffectKind says what the runtime has to do.
type EffectKind uint8

// What the program asks of its runtime.
const (
	Resolve      EffectKind = iota + 1 // hand Effect.Resolution to the conversation
	SurfaceOAuth                       // show Effect.OAuth to the user; tell the model
	PromptChoice                       // show Effect.Choice to the user
	Withdraw                           // take back the prompt of Effect.Detour
	AnswerChoice                       // post Effect.Selected to the response_url of Effect.Choice
	CancelCall                         // broadcast /cancel_tool_call
	Drop                               // nothing: an input was late or repeated; count it by Effect.Dropped
)

// A DropReason says why an input had no effect.
type DropReason uint8

// Why an input of a call was dropped.
const (
	Duplicate DropReason = iota + 1 // a second tool_result after a first one
	Late                            // arrived after the call was resolved otherwise
	Repeated                        // a detour that is open already, or an answer to one that is not
)

// String returns the reason in one word.
func (r DropReason) String() string {
	return [...]string{"none", "duplicate", "late", "repeated"}[r]
}

// An Effect is something the runtime has to do for one call. Effects of one call
// come in order.
type Effect struct {
	Kind       EffectKind
	Key        CallKey
	State      State // the call's state after this effect
	Resolution *Resolution
	OAuth      *OAuth
	Choice     *UserChoice
	Detour     string
	Selected   int
	Dropped    DropReason
	Event      EventKind // for Drop: what was dropped
}

// A Cause says which input resolved a call.
type Cause uint8

// The inputs that can resolve a call.
const (
	ByResult       Cause = iota + 1 // a tool_result
	ByRejection                     // refused before dispatch
	ByDispatch                      // the tool server did not accept it
	ByTimeout                       // its lifetime or the authorization's ended
	ByInterruption                  // the user cancelled it
	ByClosure                       // its thread was closed
	ByMalformed                     // the tool posted something unusable
	ByAnswerFailed                  // the user's choice could not be delivered
)

// String returns the cause as one or two words.
func (c Cause) String() string {
	return [...]string{"none", "tool_result", "rejected", "not accepted", "timed out", "interrupted", "thread closed", "malformed", "answer failed"}[c]
}

// A Resolution is the one outcome of a call.
type Resolution struct {
	Key    CallKey
	Cause  Cause
	Result *ToolResult // the tool's, or one made by the program whose text starts with "Error: "
}
