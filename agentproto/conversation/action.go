package conversation

import "context"

// An Action is something that a thread wants done. It is done at least once: after a
// crash, one whose outcome was not kept is done again, so doing it twice has to be like
// doing it once.
type Action struct {
	Kind   ActionKind
	Number uint64 // in its thread

	Round    uint64   // of Ask and Abandon
	Messages int      // of Ask: how many there are in the history
	Kept     Kept     // of Ask: those that are kept
	Session  *Session // of Ask

	Call *ThreadCall // of MakeCall, CancelCall, EndSubscription

	To    string // of Forward: the thread
	Input *input // of Forward
}

// An ActionKind says what a thread wants done.
type ActionKind uint8

// What a thread wants done.
const (
	Ask             ActionKind = iota + 1 // ask the model; the outcome has its reply
	Abandon                               // end the round that asked the model: nobody waits for the reply
	MakeCall                              // make a call
	CancelCall                            // cancel a call, which may not be made yet: then it is never made
	EndSubscription                       // cancel the subscription that a call opened
	EndThread                             // the thread is closed: resolve its calls, tell the tool servers
	Forward                               // hand an input to another thread
	HoldEvents                            // as many events wait as may: have none sent
	TakeEvents                            // there is room for events again
)

// A ThreadCall is a call with what its thread adds to it.
type ThreadCall struct {
	Call
	UserID    string
	Ancestors []string
}

// An Outcome says what came of an [Action]. That of an [Ask] which is empty says that
// nobody waits for the reply, or that the runtime is stopping.
type Outcome struct {
	Reply   *Reply   // of Ask, if the model answered
	Summary *Summary // of Ask, if the history was too long
	Failure string   // why not, or why a call could not be made
}

// A Do performs an action of a thread. It returns when that is done, and need not when
// ctx ends.
type Do func(ctx context.Context, thread string, a *Action) *Outcome
