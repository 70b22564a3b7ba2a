package conversation

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/handover"
)

// An Input is something that happened to a thread. Its fields are those of this package: whoever performs an [Action] passes
// it on as it is.
type Input = input

// Its fields are exported because they are part of a stored history, which also has its name.
type input struct {
	Kind       inputKind
	Token      string                 // identifies the answer that the sender waits for; empty for none
	From       string                 // the forwarding thread; empty for none
	Number     uint64                 // of the action of From
	Text       string                 // of said, openChild
	Once       string                 // of said: the name for SayOnce; empty for none
	Thread     string                 // of openChild: the child
	Session    *Session               // of opened
	Step       uint8                  // of moves, as package handover numbers them
	Migration  string                 // of moves
	Import     *State                 // of moves: the thread's state elsewhere
	Messages   []Message              // of moves: its history
	Call       string                 // of the kinds below: the call that it is about
	Resolution *agentproto.Resolution // of resolved
	Event      *Event                 // of happened
	View       *agentproto.ViewUpdate // of viewed
	Action     uint64                 // of done: the number of the action
	Outcome    *Outcome               // of done
}

// An inputKind is the kind of an input.
type inputKind uint8

const (
	asked        inputKind = iota + 1 // a request for the status; changes nothing
	opened                            // the first input of a thread
	said                              // the user said Text
	interrupted                       // the user interrupts what is in progress
	closed                            // the thread is closed
	openChild                         // Thread is opened as a child
	unsubscribed                      // the user cancels the subscription of Call
	moves                             // a Step of a Migration
	resolved                          // Call has a Resolution
	authorizing                       // Call waits for the user to authorize it
	resumed                           // Call waits for its tool again
	happened                          // a subscription has an Event
	ended                             // the subscription of Call is over
	viewed                            // a View has new content
	done                              // an Action was performed
)

// An emission is an output of a step. Exactly one of its fields is set.
type emission struct {
	Line   *line
	Answer *answer
}

// An answer is the reply to an input with a token.
type answer struct {
	Token  string
	Status Status
	Again  bool    // the name of the text was used before
	Export *Export // of an export
}

// A State is the complete state of a thread. It is part of an [Export]. The field Children has the identifiers of its child
// threads, and Move.Transfer the name of its migration. All other fields are those of this package: whoever receives an Export
// passes it on as it is.
type State state

// A state is a [State] with its fields, which are exported because they are part of a stored history.
type state struct {
	Session  *Session // nil until the thread was opened
	Messages int      // of the history, including those that are no longer kept
	Kept     Kept
	Written  []written        // the messages from Kept.First on
	Bytes    int              // the sum of the sizes in Written
	Actions  uint64           // number of the last action
	Round    uint64           // number of the last round
	Asking   bool             // the last round is in progress
	Rounds   int              // rounds since the user last said something
	Usage    Usage            // of all rounds whose replies are in the history
	Models   map[string]Usage // the same by the name of the model
	SaidOnce []string         // the last names given to SayOnce
	Batch    []Open           // the calls of the last reply, in order, until the model has all results
	// Background are the calls that wait for an authorization and that the model knows to wait.
	Background    []Open
	Subscriptions []Subscription
	Deferred      []Event        // events and late results that the model is still to be told, in order
	Lost          int            // events dropped since the model was last told
	LeftOut       map[string]int // how many of these no later event has reported, by the call of their subscription
	Holding       bool           // the host was asked to hold events
	// Used are the identifiers of the latest calls, and UsedBefore those of the calls before these. Forgot says that older ones
	// were forgotten.
	Used, UsedBefore map[string]bool
	Forgot           bool
	Heard            map[string]uint64 // number of the last forwarded action, by sending thread
	Children         []string
	Outgoing         []uint64 // actions that run one after another; the first is in progress
	Undone           map[uint64]Action
	Views            map[string]jsontext.Value
	Closed           bool
	Move             transfer
	Owing            bool     // the model is to be asked when the thread goes on
	Held             []input  // inputs that arrived during a move
	Wanted           []string // tokens of exports that wait for actions in progress
}

// A transfer is a [handover.State] in types that are accessible outside this module, because [State] contains it.
type transfer struct {
	Place     uint8
	Transfer  string
	Committed bool
	Left      bool
}

func transferOf(s handover.State) transfer {
	return transfer{uint8(s.Place), s.Transfer, s.Committed, s.Left}
}

func (m transfer) state() handover.State {
	return handover.State{Place: m.place(), Transfer: m.Transfer, Committed: m.Committed, Left: m.Left}
}

func (m transfer) place() handover.Place { return handover.Place(m.Place) }

// An Open is a call whose result the model has not been shown.
type Open struct {
	Call   Call
	Result *ToolResult // nil while the call is pending
	Waits  bool        // for the user to authorize it
}

// A Subscription is a call whose result opened a subscription.
type Subscription struct {
	Call  Call
	Child bool // its events go to a child thread
}

// An Event is an input that the model did not ask for.
type Event struct {
	Call    Call
	Result  *ToolResult // of a call that the model knew to wait, otherwise nil
	Text    string
	Inline  bool // it belongs to the subscribing thread
	Final   bool // it ends the subscription
	Foreign bool // another thread has the subscription
}
