package agentproto

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// An EventKind says what happened to a call.
type EventKind uint8

// The events that a call receives from outside. The program adds timers and dispatch outcomes of its own.
const (
	ResultArrived  EventKind = iota + 1 // Event.Result
	OAuthArrived                        // Event.OAuth, Event.Timeout
	ChoiceArrived                       // Event.Choice, Event.Timeout
	ChoiceAnswered                      // Event.Detour, Event.Selected
	AnswerFailed                        // Event.Detour, Event.Reason: the answer could not be delivered to the tool
	Interrupted                         // the user cancelled the call
	Malformed                           // Event.Reason: the tool posted something unusable that names this call
	Refused                             // Event.Reason: the runtime refuses what the tool posted, such as one subscription too many

	SubscriptionEventArrived // Event.Subscription, Event.MessageID
	SubscriptionCancelled    // the events of the call's subscription are no longer wanted
	CallLost                 // Event.Reason: the tool server reports that it does not have the call, see doc/protocol.md §9.4
	EventsLeftOut            // the runtime drops events of the call's subscription from now on, see Event.LeftOut

	notAccepted  // event.Outcome
	deadlineOver // event.Armed
	threadClosed
	ordered       // event.Order: a step of a move
	resultRead    // the recipient of the result has read it
	resultTooMuch // the results that the thread keeps have become too large
)

// An Event is something that happened to one call.
type Event struct {
	Kind   EventKind
	Result *ToolResult
	OAuth  *OAuth
	Choice *UserChoice
	// Detour names a detour of its call. For OAuthArrived it stands for the auth_url, which may then be sealed: doc/protocol.md
	// §5.3 says that it must not be kept longer than needed. Empty means the auth_url itself. For ChoiceAnswered and AnswerFailed
	// it is the response_url of the choice that was answered.
	Detour   string
	Selected int // index into the choices
	// Values, of ChoiceAnswered, are what the user filled in of the choice's form, as form.Filled writes them; nil if the user
	// chose instead. They may cover only some of the questions: the call goes on when all are answered. Of two answers to one
	// question the first counts.
	Values jsontext.Value `json:",omitzero"`
	Reason string

	Subscription *SubscriptionEvent
	// MessageID is the webhook-id that a subscription event was posted with, or "" if it had none. Of several events of one
	// subscription with the same id, only the first counts.
	MessageID string
	// LeftOut, of SubscriptionEventArrived, is how many events the runtime dropped before this one because they exceeded its
	// limits. The text of the event says so. EventsLeftOut is delivered before the first dropped event is answered, so that the
	// next event reports the gap even if the process that counted the dropped events is lost.
	LeftOut int

	// Incarnation is that of the call that the event is about, if the sender knows it. The event then has no effect on another
	// call with the same key. Zero means any call with the key. The lowest 16 bits are ignored.
	Incarnation uint64

	// At is when an OAuthArrived, ChoiceArrived or ChoiceAnswered happened. A snapshot needs it to compute the time that is left.
	// Zero means the time at which Deliver is called.
	At time.Time

	// Timeout is how long the user may take for the detour that the event opens. Zero means 10 minutes for OAuth and 24 hours for
	// a choice.
	Timeout time.Duration

	// Lifetime, of ChoiceArrived and ChoiceAnswered, is how long the call may wait for its result after the choice is answered.
	// Zero means the Lifetime of [ProgramOptions].
	Lifetime time.Duration
}

// check returns an error if the kind of the event is unknown or greater than last, or if the event lacks a field that its kind
// requires. Without the check the program would panic, and a durable program would panic again each time it replays its log.
func (e *Event) check(last EventKind) error {
	missing := ""
	switch {
	case e.Kind < ResultArrived || e.Kind > last:
		return fmt.Errorf("agentproto: an event of the unknown kind %d", e.Kind)
	case e.Kind == ResultArrived && e.Result == nil:
		missing = "Result"
	case e.Kind == OAuthArrived && e.OAuth == nil:
		missing = "OAuth"
	case e.Kind == ChoiceArrived && e.Choice == nil:
		missing = "Choice"
	case e.Kind == SubscriptionEventArrived && e.Subscription == nil:
		missing = "Subscription"
	default:
		return nil
	}
	return fmt.Errorf("agentproto: an event of kind %d without its %s", e.Kind, missing)
}

// An event is an [Event] inside the program. Its fields are exported because they are part of a stored history.
type event struct {
	Event
	Outcome DispatchOutcome // of notAccepted
	Order   *order
	Armed   uint32 // of deadlineOver: the call's Armed when the deadline was set
}
