package tools

import (
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/handover"
)

// An In is what happens to a session. One of its members besides Token is set.
type In struct {
	Token  string // names who waits for a Told; empty for nobody
	Invoke *Invoke
	Post   *Post
	Cancel *Cancel
	Answer *UserAnswer
	Ask    *Ask
	Grant  *Grant
	Move   *MoveOrder
	Import *Moved // from a transfer

	Transfer string // of Import
}

// An Invoke is an invocation.
type Invoke struct {
	Call   CallID
	Inv    *agentproto.Invocation
	Print  Print
	Epoch  string           // tells this call from an earlier one of the same id
	By     string           // the process that took it
	Barred bool             // a cancellation came before it
	Trace  agentproto.Trace `json:",omitzero"` // the span that took it
}

// A Post is what a tool function says while it runs: a message, the state of its subscription,
// or both.
type Post struct {
	Call    CallID
	Message *Message // nil to change the state only
	Event   bool     // it is one of a subscription, and State is the state after it
	Final   bool     // nothing follows it
	Kept    bool     // State is to be kept
	State   []byte
	Ask     *Question // what Message asks the user
	Step    *Step     // what the function has done, to be kept with the call
	Recall  bool      // asks for the steps that are kept
	Credit  Credit
}

// A Step is something that the function of a call has done and must not do again when it runs
// again: its outcome is kept with the call, under a name that the function has for it.
type Step struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// A Credit says how much of what a process has posted for a call has been taken in.
type Credit struct {
	Epoch           string // of the process
	Messages, Bytes int64  // that it has posted since it began
}

// A Cancel ends a call, or, without an ID, all calls of a thread and what was granted to it.
type Cancel struct{ Group, ID string }

// A UserAnswer is what came as the answer to a question.
type UserAnswer struct {
	Call     CallID
	Question string // Question.ID
	Selected int    // -1 for an answer that is none
	Values   []byte `json:",omitempty"` // what was filled in of a form, unchecked; nil for a choice
}

// An Ask is that of a call for an authorization of its user, which goes on to the machine of those.
// The answer to it is there.
type Ask struct {
	Call CallID
	In   authorize.In
}

// A Grant is something that is allowed to a thread until it is closed.
type Grant struct {
	Runtime, Thread string
	What            string // a digest
}

// A Question waits for a user. Text and Nth say which one it is when its function runs again.
type Question struct {
	ID      string // the digest of what the answer has to know
	Text    string // a digest of what is asked
	Nth     int    // how often the same was asked before in one run
	Choices int
	At      time.Time
	// Selected is the answer, -1 for one that is none; nil while there is none.
	Selected *int
	Form     bool   `json:",omitzero"`  // it can be answered with values
	Values   []byte `json:",omitempty"` // of the answer, as of [UserAnswer]
}

// A Message is on its way to a runtime.
type Message struct {
	Kind string
	ID   string // the webhook-id
	Body []byte
	Same string // a message of the same call and Same that waits is this one
	Lost string // who is told, by this name, if it is not delivered

	Number uint64
	Posted time.Duration // in the time of the history
	Failed int           // attempts
	Wake   time.Duration // when the next attempt is due
}

// A Told is the answer to an [In] with a token.
type Told struct {
	Refused       Refusal
	Other         bool           // an invocation has the id of another call
	Move          handover.State // of a session, or of a transfer to here
	URL, Endpoint string         // of a session that moves
	Known         bool           // there is something of the session
	Data          []byte         // the session, for an Export; of a step that was kept before
	Steps         []Step         // of a call, for a Recall
}

// A Refusal says why nothing was done.
type Refusal string

// The refusals.
const (
	RefusedMoving Refusal = "moving" // the session does not take anything now
	RefusedFull   Refusal = "full"   // there are too many answers on their way
	RefusedOver   Refusal = "over"   // there is no such call, or no longer
	RefusedEnded  Refusal = "ended"  // it has sent its last message
	RefusedSteps  Refusal = "steps"  // it has kept too many steps, or too large ones
)

// A Load is a sum over sessions.
type Load struct {
	Calls    int64 // not finished, without those of sessions that move
	Busy     int64 // of these, with messages that are not delivered
	Bytes    int64 // of messages that are not delivered
	Finished int64 // that are remembered
	Results  int64 // bytes of results that are remembered
	Staged   int64 // sessions that may come
}

func (l *Load) add(more Load) {
	l.Calls += more.Calls
	l.Busy += more.Busy
	l.Bytes += more.Bytes
	l.Finished += more.Finished
	l.Results += more.Results
	l.Staged += more.Staged
}

// An Out is what a step says. One of its members is set.
type Out struct {
	Token    string // of Told
	Told     *Told
	Alive    *Alive
	Bar      *Name // a cancellation of what is not known
	Asked    *Asked
	Answered *Answered
	Grant    *Granted
	Stop     *Stop
	Load     *LoadOf
	Order    *Order
	Dead     string // the token of an Ask of a call that there is not
}

// An Order tells the authorizations of a runtime something.
type Order struct {
	Runtime string
	authorize.In
}

// An Alive says that a call begins, or is over.
type Alive struct {
	Name Name
	Over bool
}

// An Asked is a question that a user was asked.
type Asked struct {
	Place Place
	Call  CallID
	Question
}

// An Answered is the answer to a question, or says that its message was not delivered.
type Answered struct {
	ID       string // Question.ID, or Message.Lost
	Selected int    // -1 for an answer that is none
	Values   []byte `json:",omitempty"` // as of [UserAnswer]
	Lost     bool
}

// A Granted says that something is allowed, or no longer.
type Granted struct {
	Grant
	Over bool
}

// A Stop says that a job is to end, or that it has.
type Stop struct {
	Number uint64
	Cause  Cause
	Over   bool
}

// A Cause says why a job is stopped.
type Cause string

// The causes.
const (
	CauseCancelled Cause = "cancelled"
	CauseMoving    Cause = "moving"
	CauseOther     Cause = "superseded" // the message goes to another address
	CauseEnded     Cause = "ended"      // the final event was sent
)

// A LoadOf is a change of the load of a runtime.
type LoadOf struct {
	Runtime string
	Load
}

// A Kind of job.
type Kind string

// The kinds.
const (
	Run     Kind = "run"     // the function of a call
	Produce Kind = "produce" // the producer of a subscription
	Attempt Kind = "attempt" // sends a message once
	Hold    Kind = "hold"    // lasts as long as somebody is moving the session
	Settle  Kind = "settle"  // finds out whether the destination has the session
)

// A Job is something to do outside of the flow.
type Job struct {
	Kind   Kind
	Number uint64 // tells it from all others of its session, also of the lives before
	Call   CallID
	Inv    *agentproto.Invocation // of Run and Produce
	Epoch  string                 // tells the call from an earlier one of the same id
	By     string                 // the process that the function, or producer, begins in
	State  []byte                 // of Produce
	Known  []Question             // answered elsewhere
	Trace  agentproto.Trace       `json:",omitzero"` // of Run, Produce and Attempt: the span that took the call

	To      string // of Attempt
	ID      string // the webhook-id at that address
	Message *Message
	Left    time.Duration // until the message is given up
	Reply   bool          // it answers an invocation with the id of another call
	Queue   int           // messages that wait; of Run, Produce and Attempt
	Bytes   int64         // of these
	Credit  Credit        // of the last message that is in Queue, or was

	Move Move // of Hold and Settle
}

// An Outcome is what came of a [Job].
type Outcome struct {
	Suspended bool   // it has not happened, and is done again later
	By        string // the process that does it then, if that is another one

	// Of Run: the result, with the state of the subscription that it opens.
	Result    *Message
	Subscribe bool
	State     []byte
	// Of Produce: the final event, if it has sent none.
	Final *Message

	// Of Attempt.
	Class Class
	After time.Duration // what the runtime wants the next attempt to wait
	Load  Load          // of all sessions, when it came

	// Of Settle.
	Committed bool
}

// A Class says what came of an attempt.
type Class string

// The classes.
const (
	Accepted Class = "accepted"
	Again    Class = "again"
	Refused  Class = "refused"
	Gone     Class = "gone"
)
