package tools

import (
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/authorize"
)

// A Phase is the progress of a call.
type Phase string

// The phases of a call. They only advance. A finished call is removed.
const (
	Running    Phase = "running"    // its function has not returned
	Subscribed Phase = "subscribed" // it has its result, and may send events
	Resolved   Phase = "resolved"   // its last message is posted, but not delivered
)

// A Session is the state of a session.
//
// It maintains, between steps:
//
//  1. a call is in Calls or remembered in Done, but not in both,
//  2. Queue of a call has its messages in the order of Number, in which they were posted; at most
//     the first of them has an attempt in progress,
//  3. a result is posted in the step that takes the call out of Running: there is at most one,
//     and none after a cancellation,
//  4. Order contains each key of Done once, by age,
//  5. Told of a call is the sum of all [Out].Load about it, and Sum is the sum of those about
//     remembered calls.
type Session struct {
	Calls   []*Call // in order of arrival
	Replies []*Reply
	Done    map[Key]Finished
	Order   []Aged
	Grants  []Grant
	Tokens  []Holder // that users have authorized for this session alone
	Move    Move
	Jobs    uint64   // the number of the last job
	Stops   []uint64 // jobs that must end and have not
	Results int64    // bytes of results in Done
	Sum     Load     // the reported load of remembered calls
}

// A Call is an accepted invocation whose call is not finished.
type Call struct {
	ID        CallID
	Inv       *agentproto.Invocation
	Print     Print
	Epoch     string
	By        string
	Phase     Phase
	Address   string
	Before    []brief // earlier addresses, the latest last
	Queue     []*Message
	Number    uint64 // of the last message
	Run       uint64 // the job that runs the function or producer; 0 for none
	Attempt   uint64 // the job that sends the first message; 0 for none
	State     []byte // of the subscription
	Questions []Question
	Steps     []Step // while the function runs
	Result    []byte // the body, if it is stored
	Credit    Credit
	Asks      bool             // it may wait for an authorization
	Told      LoadOf           // the reported load of this call
	Trace     agentproto.Trace `json:",omitzero"` // the span of the request
}

// A Holder names a token that may exist for this session alone, because its runtime names no user.
type Holder struct {
	Runtime string
	Key     authorize.Key
}

// A Reply is an answer to an invocation that reused the id of another call, finished or not. It is
// delivered separately from that call's messages.
type Reply struct {
	Call    CallID
	Key     Key
	Address string
	Message *Message
	Attempt uint64
}

// A Finished is the remembered part of a call or a reply.
type Finished struct {
	Print   Print
	Address brief
	Result  []byte // nil if it is not stored
}

// An Aged is a key in Done with the time when it was added.
type Aged struct {
	Key Key
	At  time.Duration
}

// Limits of a session.
const (
	maxAddresses  = 8        // remembered earlier addresses per call
	maxReplies    = 64       // undelivered replies
	maxGrants     = 64       // of one session
	maxTokens     = 64       // of one session
	maxQuestions  = 256      // stored questions per call
	maxSteps      = 256      // stored steps per call
	maxStepBytes  = 1 << 20  // bytes of steps per call
	maxKept       = 64 << 10 // bytes of one remembered result
	maxKeptAll    = 32 << 20 // bytes of all remembered results
	maxDone       = 1 << 16  // remembered keys per session
	maxDoneAll    = 500_000  // remembered keys of all sessions; beyond it a session forgets down to maxDoneFull
	maxDoneFull   = 64       //
	messageWeight = 256      // bytes that a message counts in addition to its body
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

// owes reports whether the result of a call is not delivered yet.
func (c *Call) owes() bool { return c.Phase == Running || slices.ContainsFunc(c.Queue, isResult) }

// bytes returns the weight of a call's messages in bytes.
func (c *Call) bytes() (n int64) {
	for _, m := range c.Queue {
		n += int64(len(m.Body)) + messageWeight
	}
	return n
}
