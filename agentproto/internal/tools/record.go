package tools

import (
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/authorize"
	"github.com/millrace/millrace/agentproto/internal/handover"
)

// An In is an input of a session. Exactly one of its members other than Token and Transfer is set.
type In struct {
	Token  string // names the receiver of the Told; empty for none
	Invoke *Invoke
	Post   *Post
	Cancel *Cancel
	Answer *UserAnswer
	Ask    *Ask
	Grant  *Grant
	Move   *MoveOrder
	Import *Moved // a session that has arrived by a transfer

	Transfer string // of Import
}

// An Invoke is an invocation.
type Invoke struct {
	Call   CallID
	Inv    *agentproto.Invocation
	Print  Print
	Epoch  string           // distinguishes this call from an earlier one with the same id
	By     string           // the process that accepted it
	Barred bool             // its cancellation came first
	Trace  agentproto.Trace `json:",omitzero"` // the span of the request
}

// A Post is an input from a running tool function: a message, the state of its subscription, or
// both, or a request about steps.
type Post struct {
	Call    CallID
	Message *Message // nil to change only the state
	Event   bool     // Message is an event, and State is the state after it
	Final   bool     // Message is the last one
	Kept    bool     // State is to be stored
	State   []byte
	Ask     *Question // the question in Message
	Step    *Step     // to be stored with the call
	Recall  bool      // requests the stored steps
	Credit  Credit
}

// A Step is something that the function of a call has done and must not do again when it runs
// again. Its result is stored with the call, under the function's name for it.
type Step struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// A Credit is how much a run of a function has posted for a call.
type Credit struct {
	Epoch           string // names the run
	Messages, Bytes int64  // posted since the run began
}

// A Cancel ends a call, or, without an ID, all calls of a thread and its grants.
type Cancel struct{ Group, ID string }

// A UserAnswer is the answer to a question.
type UserAnswer struct {
	Call     CallID
	Question string // Question.ID
	Selected int    // -1 for an invalid answer
	Values   []byte `json:",omitempty"` // values for a form, unchecked; nil for a choice
}

// An Ask is a call's request for an authorization of its user. It is passed on to the
// authorizations of its runtime, which answer it.
type Ask struct {
	Call CallID
	In   authorize.In
}

// A Grant is something that a thread is allowed until it is closed.
type Grant struct {
	Runtime, Thread string
	What            string // a digest
}

// A Question is asked of a user. Text and Nth identify it when its function runs again.
type Question struct {
	ID      string // the digest of the secret in the address for the answer
	Text    string // a digest of the question's words
	Nth     int    // how often the same was asked before in one run
	Choices int
	At      time.Time
	// Selected is the answer, or -1 for an invalid one; nil if there is none yet.
	Selected *int
	Form     bool   `json:",omitzero"`  // it may be answered with values
	Values   []byte `json:",omitempty"` // of the answer, as in [UserAnswer]
}

// A Message is a message to a runtime.
type Message struct {
	Kind string
	ID   string // the webhook-id
	Body []byte
	Same string // if not empty and equal to that of an undelivered message of the call, this one is not queued
	Lost string // if not empty, the ID of the Answered that reports a failed delivery

	Number uint64
	Posted time.Duration // in the time of the history
	Failed int           // number of failed attempts
	Wake   time.Duration // when the next attempt is due
}

// A Told is the answer to an [In] with a token.
type Told struct {
	Refused       Refusal
	Other         bool           // an invocation reused the id of another call
	Move          handover.State // of a session, or of a transfer to this instance
	URL, Endpoint string         // of a moving session's destination
	Known         bool           // the session has state here
	Data          []byte         // the session, of Export; or the data of the step that was stored before
	Steps         []Step         // of a call, of Recall
}

// A Refusal says why an input had no effect.
type Refusal string

// The refusals.
const (
	RefusedMoving Refusal = "moving" // the session accepts nothing at present
	RefusedFull   Refusal = "full"   // too many replies are undelivered
	RefusedOver   Refusal = "over"   // no such call exists, or no longer
	RefusedEnded  Refusal = "ended"  // the call has sent its last message
	RefusedSteps  Refusal = "steps"  // the call has stored too many steps, or too large ones
)

// A Load is a sum over sessions.
type Load struct {
	Calls    int64 // unfinished calls, without those of sessions that move
	Busy     int64 // of these, those with undelivered messages
	Bytes    int64 // of undelivered messages
	Finished int64 // remembered finished calls and replies
	Results  int64 // bytes of remembered results
	Staged   int64 // staged sessions
}

func (l *Load) add(more Load) {
	l.Calls += more.Calls
	l.Busy += more.Busy
	l.Bytes += more.Bytes
	l.Finished += more.Finished
	l.Results += more.Results
	l.Staged += more.Staged
}

// An Out is an output of a step. Exactly one of its members other than Token is set.
type Out struct {
	Token    string // of Told
	Told     *Told
	Alive    *Alive
	Bar      *Name // a cancellation that found no call
	Asked    *Asked
	Answered *Answered
	Grant    *Granted
	Stop     *Stop
	Load     *LoadOf
	Order    *Order
	Dead     string // the token of an Ask of a call that does not exist
}

// An Order is an input to the authorizations of a runtime.
type Order struct {
	Runtime string
	authorize.In
}

// An Alive says that a call begins, or, if Over, has ended.
type Alive struct {
	Name Name
	Over bool
}

// An Asked is a question that was posted to a user.
type Asked struct {
	Place Place
	Call  CallID
	Question
}

// An Answered is the answer to a question, or says that its message was not delivered.
type Answered struct {
	ID       string // Question.ID, or Message.Lost
	Selected int    // -1 for an invalid answer
	Values   []byte `json:",omitempty"` // as in [UserAnswer]
	Lost     bool
}

// A Granted says that something is granted, or, if Over, no longer.
type Granted struct {
	Grant
	Over bool
}

// A Stop says that a job must end, or, if Over, that it has ended.
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

// A Kind is a kind of job.
type Kind string

// The kinds.
const (
	Run     Kind = "run"     // the function of a call
	Produce Kind = "produce" // the producer of a subscription
	Attempt Kind = "attempt" // sends a message once
	Hold    Kind = "hold"    // lasts while this process is moving the session
	Settle  Kind = "settle"  // finds out whether the destination has the session
)

// A Job is work outside the flow.
type Job struct {
	Kind   Kind
	Number uint64 // distinguishes it from all other jobs of its session, even from earlier lives
	Call   CallID
	Inv    *agentproto.Invocation // of Run and Produce
	Epoch  string                 // distinguishes the call from an earlier one with the same id
	By     string                 // the process in which the function or producer starts
	State  []byte                 // of Produce
	Known  []Question             // answered elsewhere
	Trace  agentproto.Trace       `json:",omitzero"` // the span of the request; of Run, Produce and Attempt

	To      string // of Attempt
	ID      string // the webhook-id at that address
	Message *Message
	Left    time.Duration // until the message is given up
	Reply   bool          // it answers an invocation that reused the id of another call
	Queue   int           // undelivered messages; of Run, Produce and Attempt
	Bytes   int64         // of these messages
	Credit  Credit        // of the last message that was posted

	Move Move // of Hold and Settle
}

// An Outcome is the result of a [Job].
type Outcome struct {
	Suspended bool   // the job was not done, and is done again later
	By        string // the process that does it then, if it is another one

	// Of Run: the result, with the state of the subscription that it opens, if any.
	Result    *Message
	Subscribe bool
	State     []byte
	// Of Produce: the final event, if the producer has sent none.
	Final *Message

	// Of Attempt.
	Class Class
	After time.Duration // the minimum pause that the runtime asks for
	Load  Load          // of all sessions, at the time of the outcome

	// Of Settle.
	Committed bool
}

// A Class is the outcome of an attempt.
type Class string

// The classes.
const (
	Accepted Class = "accepted"
	Again    Class = "again"
	Refused  Class = "refused"
	Gone     Class = "gone"
)
