package agentproto

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

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

	DeliverEvent      // show Effect.Subscription to the conversation, behind what came before
	SubscriptionEnded // no event comes any more; Effect.Event says what ended it

	Departed // nothing: the call, pending or subscribed, is another program's now

	moves // Effect.Moved: for the program's own outputs

	FilledIn // nothing: some questions of the form of Effect.Detour have answers, and others have none yet
)

// A DropReason says why an input had no effect.
type DropReason uint8

// Why an input of a call was dropped.
const (
	Duplicate    DropReason = iota + 1 // a second tool_result after a first one, or an event whose message id was seen
	Late                               // arrived after the call was resolved otherwise
	Repeated                           // a detour that is open already, or an answer to one that is not
	Unsubscribed                       // an event for a call that has no subscription: not yet, not any more, or never
)

// String returns the reason in one word.
func (r DropReason) String() string {
	return [...]string{"none", "duplicate", "late", "repeated", "unsubscribed"}[r]
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
	Detour     string // of a detour; see Event.Detour
	Number     uint64 // of a detour: tells those of a call apart
	Selected   int
	Values     jsontext.Value `json:",omitzero"` // of AnswerChoice, if the user has filled in a form
	Dropped    DropReason
	Event      EventKind // for Drop: what was dropped; for SubscriptionEnded: what ended it

	Subscription *SubscriptionEvent

	// Server, of SurfaceOAuth, PromptChoice and AnswerChoice, is that of the call.
	Server string
	// Lifetime, of SurfaceOAuth and PromptChoice, is that of the event.
	Lifetime time.Duration
	// Operation, of SurfaceOAuth and PromptChoice, is the name of the tool that asks.
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
	ByTimeout                       // its lifetime or the authorization's ended
	ByInterruption                  // the user cancelled it
	ByClosure                       // its thread was closed
	ByMalformed                     // the tool posted something unusable
	ByAnswerFailed                  // the user's choice could not be delivered
	ByLoss                          // the tool server says that it does not have the call
	ByRefusal                       // the runtime did not take what the tool posted
)

// String returns the cause as one or two words.
func (c Cause) String() string {
	return [...]string{"none", "tool_result", "rejected", "not accepted", "timed out", "interrupted", "thread closed", "malformed", "answer failed", "lost", "refused"}[c]
}

// A Resolution is the one outcome of a call.
type Resolution struct {
	Key    CallKey
	Cause  Cause
	Result *ToolResult // the tool's, or one made by the program whose text starts with "Error: "
	Server string      // that of the call
	Trace  Trace       `json:",omitzero"` // that of the call
}
