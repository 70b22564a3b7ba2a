package conversation

import "context"

// An Action is something that a thread wants done. It is done at least once: after a crash, an action whose outcome was not
// recorded is done again. So doing it twice must have the same effect as doing it once.
type Action struct {
	Kind   ActionKind
	Number uint64 // in its thread

	Round    uint64   // of Ask and Abandon
	Messages int      // of Ask: how many messages the history has
	Kept     Kept     // of Ask: which of them are kept
	Session  *Session // of Ask

	Call *ThreadCall // of MakeCall, CancelCall, EndSubscription

	To    string // of Forward: the thread
	Input *Input // of Forward
}

// An ActionKind is the kind of an [Action].
type ActionKind uint8

// The kinds of actions.
const (
	Ask             ActionKind = iota + 1 // ask the model; the outcome has its reply
	Abandon                               // end the round that asked the model: the reply is no longer wanted
	MakeCall                              // make a call
	CancelCall                            // cancel a call; one that is not made yet must never be made
	EndSubscription                       // cancel the subscription that a call opened
	EndThread                             // the thread is closed: resolve its calls and inform the tool servers
	Forward                               // pass an input to another thread
	HoldEvents                            // the limit of waiting events is reached: stop the tool servers from sending more
	TakeEvents                            // events are accepted again
)

// A ThreadCall is a call with the data that its thread adds.
type ThreadCall struct {
	Call
	UserID    string
	Ancestors []string
}

// An Outcome is the outcome of an [Action]. An empty outcome of an [Ask] says that the reply is not wanted, or that the runtime
// is stopping.
type Outcome struct {
	Reply   *Reply   // of Ask, if the model answered
	Summary *Summary // of Ask, if the history was too long
	Failure string   // why the model did not answer, or why a call could not be made
}

// A Do performs an action of a thread. It returns when the action is done; it need not finish if ctx ends.
type Do func(ctx context.Context, thread string, a *Action) *Outcome
