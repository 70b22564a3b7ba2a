package tools

import (
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/authorize"
)

// A Phase says how far a call is.
type Phase string

// The phases of a call. They only advance. A call that is finished is none any longer.
const (
	Running    Phase = "running"    // its function has not returned
	Subscribed Phase = "subscribed" // it has its result, and events may follow
	Resolved   Phase = "resolved"   // its last message is there, but not delivered
)

// A Session is the state of a session.
//
// It maintains, between steps:
//
//  1. a call is in Calls or remembered in Done, not both,
//  2. Queue of a call has its messages in the order of Number, which is that in which they
//     were posted; at most one of them has an attempt under way, the first,
//  3. a result is posted in the step that takes the call out of Running: there is at most one,
//     and none after a cancellation,
//  4. Order has each key of Done once, by age,
//  5. Told of a call is what all [Out].Load about it say together, and Sum those about
//     what is remembered.
type Session struct {
	Calls   []*Call // in the order in which they came
	Replies []*Reply
	Done    map[Key]Finished
	Order   []Aged
	Grants  []Grant
	Tokens  []Holder // of users, for this session alone
	Move    Move
	Jobs    uint64   // the number of the last job
	Stops   []uint64 // of jobs that were told to end and have not
	Results int64    // bytes of results in Done
	Sum     Load     // what was said of what is remembered
}

// A Call is an accepted invocation that is not finished.
type Call struct {
	ID        CallID
	Inv       *agentproto.Invocation
	Print     Print
	Epoch     string
	By        string
	Phase     Phase
	Address   string
	Before    []brief // the addresses before, the latest last
	Queue     []*Message
	Number    uint64 // of the last message
	Run       uint64 // the job that runs the function or producer; 0 if there is none
	Attempt   uint64 // the job that sends the first message
	State     []byte // of the subscription
	Questions []Question
	Steps     []Step // while the function runs
	Result    []byte // the body, if it is kept
	Credit    Credit
	Asks      bool             // it may wait for an authorization
	Told      LoadOf           // of this call
	Trace     agentproto.Trace `json:",omitzero"` // the span that took it
}

// A Holder is whose token there may be: of a runtime that names no user for the session.
type Holder struct {
	Runtime string
	Key     authorize.Key
}

// A Reply is an answer to an invocation that has the id of another call, or of one that is
// finished. It is delivered beside the messages of that call.
type Reply struct {
	Call    CallID
	Key     Key
	Address string
	Message *Message
	Attempt uint64
}

// A Finished is what is remembered of a call, or of a reply.
type Finished struct {
	Print   Print
	Address brief
	Result  []byte // nil if it is not kept
}

// An Aged says since when a key is in Done.
type Aged struct {
	Key Key
	At  time.Duration
}

// Bounds of a session.
const (
	maxAddresses  = 8        // of one call that are known
	maxReplies    = 64       // on their way
	maxGrants     = 64       // of one session
	maxTokens     = 64       // of one session
	maxQuestions  = 256      // of one call that are remembered
	maxSteps      = 256      // of one call that are kept
	maxStepBytes  = 1 << 20  // of the steps of one call
	maxKept       = 64 << 10 // bytes of a result that is remembered
	maxKeptAll    = 32 << 20 // bytes of all of them
	maxDone       = 1 << 16  // keys of one session
	maxDoneAll    = 500_000  // keys of all sessions; from then on a session has maxDoneFull
	maxDoneFull   = 64       //
	messageWeight = 256      // what a message costs besides its body
	rememberMoved = 720 * time.Hour
)

func newSession() *Session { return &Session{Done: make(map[Key]Finished)} }

func (s *Session) call(id CallID) *Call {
	for _, c := range s.Calls {
		if c.ID == id {
			return c
		}
	}
	return nil
}

// isResult reports whether a message is the result of its call.
func isResult(m *Message) bool { return m.Kind == agentproto.TypeToolResult }

// owes reports whether the result of a call is still to be delivered.
func (c *Call) owes() bool { return c.Phase == Running || slices.ContainsFunc(c.Queue, isResult) }

// bytes returns what the messages of a call count for.
func (c *Call) bytes() (n int64) {
	for _, m := range c.Queue {
		n += int64(len(m.Body)) + messageWeight
	}
	return n
}
