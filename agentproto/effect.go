package agentproto

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// An EffectKind says what the runtime is to do.
type EffectKind uint8

// The effects of a program.
const (
	Resolve      EffectKind = iota + 1 // pass Effect.Resolution to the conversation
	SurfaceOAuth                       // show Effect.OAuth to the user; tell the model
	PromptChoice                       // show Effect.Choice to the user
	Withdraw                           // take back the prompt of Effect.Detour
	AnswerChoice                       // post Effect.Selected to the response_url of Effect.Choice
	CancelCall                         // broadcast /cancel_tool_call
	Drop                               // nothing to do: an input was late or repeated; count it by Effect.Dropped

	DeliverEvent      // show Effect.Subscription to the conversation, after the effects before it
	SubscriptionEnded // no more events arrive; Effect.Event says what ended the subscription

	Departed // nothing to do: the call, pending or subscribed, now belongs to another program

	moves // Effect.Moved: used by the program's own outputs

	FilledIn // nothing to do: some but not all questions of the form of Effect.Detour are answered
)

// A DropReason says why an input had no effect.
type DropReason uint8

// The reasons for which an input of a call was dropped.
const (
	Duplicate    DropReason = iota + 1 // a second tool_result after the first, or an event whose message id was seen before
	Late                               // arrived after the call was resolved by something else
	Repeated                           // a detour that is already open, or an answer to one that is not open
	Unsubscribed                       // an event for a call without an open subscription
)

// String returns the reason in one word.
func (r DropReason) String() string {
	return [...]string{"none", "duplicate", "late", "repeated", "unsubscribed"}[r]
}

// An Effect is something the runtime is to do for one call. The effects of one call are ordered.
type Effect struct {
	Kind       EffectKind
	Key        CallKey
	State      State // the call's state after this effect
	Resolution *Resolution
	OAuth      *OAuth
	Choice     *UserChoice
	Detour     string // the name of the detour; see Event.Detour
	Number     uint64 // the number of the detour, unique within the call
	Selected   int
	Values     jsontext.Value `json:",omitzero"` // of AnswerChoice, what the user filled in of the form, if anything
	Dropped    DropReason
	Event      EventKind // for Drop: what was dropped; for SubscriptionEnded: what ended it

	Subscription *SubscriptionEvent

	// Server is the call's server. It is set for SurfaceOAuth, PromptChoice and AnswerChoice.
	Server string
	// Lifetime is that of the event that opened the detour. It is set for SurfaceOAuth and PromptChoice.
	Lifetime time.Duration
	// Operation is the name of the tool that asks. It is set for SurfaceOAuth and PromptChoice.
	Operation string

	// Moved is for the program's own use.
	Moved *Moved
}

// A Cause says which input resolved a call.
type Cause uint8

// The inputs that can resolve a call.
const (
	ByResult       Cause = iota + 1 // a tool_result
	ByRejection                     // refused before dispatch
	ByDispatch                      // the tool server did not accept it
	ByTimeout                       // its lifetime, or the time for the authorization, ended
	ByInterruption                  // the user cancelled it
	ByClosure                       // its thread was closed
	ByMalformed                     // the tool posted something unusable
	ByAnswerFailed                  // the user's choice could not be delivered
	ByLoss                          // the tool server reports that it no longer has the call
	ByRefusal                       // the runtime refused what the tool posted
)

// String returns the cause as one or two words.
func (c Cause) String() string {
	return [...]string{"none", "tool_result", "rejected", "not accepted", "timed out", "interrupted", "thread closed", "malformed", "answer failed", "lost", "refused"}[c]
}

// A Resolution is the one outcome of a call.
type Resolution struct {
	Key    CallKey
	Cause  Cause
	Result *ToolResult // the tool's result, or an error result made by the program
	Server string      // that of the call
	Trace  Trace       `json:",omitzero"` // that of the call
}
