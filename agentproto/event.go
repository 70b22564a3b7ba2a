package agentproto

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

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
	Refused                             // Event.Reason: the runtime does not take what the tool posted, such as one subscription too many

	SubscriptionEventArrived // Event.Subscription, Event.MessageID
	SubscriptionCancelled    // nobody wants the events of the call's subscription any more
	CallLost                 // Event.Reason: the tool server says that it does not have the call, see doc/protocol.md §9.4
	EventsLeftOut            // the runtime leaves out events of the call's subscription from now on, see Event.LeftOut

	notAccepted  // event.Outcome
	deadlineOver // event.Armed
	threadClosed
	ordered       // event.Order: a step of a move
	resultRead    // whom the result is for has it
	resultTooMuch // the thread keeps too much with the result
)

// An Event is something that happened to one call.
type Event struct {
	Kind   EventKind
	Result *ToolResult
	OAuth  *OAuth
	Choice *UserChoice
	// Detour names a detour of its call. For OAuthArrived it stands for the auth_url, which
	// is then free to be a sealed one: doc/protocol.md §5.3 says that it must not be kept
	// longer than needed. Empty means the auth_url itself. For ChoiceAnswered and
	// AnswerFailed it is the response_url of what is meant.
	Detour   string
	Selected int // index into the choices
	// Values, of ChoiceAnswered, are what the user has filled in of the form of the choice, as form.Filled writes them; nil if
	// the user has chosen. They may be those of some of the questions: the call goes on when all have an answer, and of two answers to a question
	// the first counts.
	Values jsontext.Value `json:",omitzero"`
	Reason string

	Subscription *SubscriptionEvent
	// MessageID is the webhook-id that a subscription event was posted with, or "" if it
	// was posted without. Of events of one subscription with one id, the first counts.
	MessageID string
	// LeftOut, of SubscriptionEventArrived, is how many events the runtime left out before this
	// one, because they were more than it takes. The text of the event says so. EventsLeftOut is
	// delivered before the first of them is answered, so that the next event tells of them also
	// if their number was lost with the process that counted them.
	LeftOut int

	// Incarnation is that of the call that the event is about, for a sender that knows it: the
	// event does nothing to another call with the key. Zero means whichever there is. The lowest
	// 16 bits do not count.
	Incarnation uint64

	// At is when it happened, of OAuthArrived, ChoiceArrived and ChoiceAnswered: how much of
	// their time is left is part of a snapshot. Zero means that Deliver is called then.
	At time.Time

	// Timeout is how long the user may take for the detour that the event opens.
	// Zero means 10 minutes for OAuth and 24 hours for a choice.
	Timeout time.Duration

	// Lifetime, of ChoiceArrived and ChoiceAnswered, is how long the call may wait for
	// its result again when the choice has been answered. Zero means that of
	// [ProgramOptions].
	Lifetime time.Duration
}

// check returns an error if the kind of the event is unknown, or after last, or if the event lacks what its kind
// has. The program would panic where it needs that, and a durable one again each time that it reads its log.
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

// An event is an Event inside the program. Its fields are exported because they are part
// of a history that is kept.
type event struct {
	Event
	Outcome DispatchOutcome // of notAccepted
	Order   *order
	Armed   uint32 // of deadlineOver: that of the call then
}
