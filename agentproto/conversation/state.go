package conversation

import (
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/handover"
)

// An input is something that happened to a thread. Fields are exported because they are
// part of a history that is kept.
type input struct {
	Kind       inputKind
	Token      string                 // under which whoever sent it awaits an answer; empty if nobody does
	From       string                 // the thread that forwards it; empty for none
	Number     uint64                 // of the action of From
	Text       string                 // of said, openChild
	Once       string                 // of said: the name under which it is said once; empty for none
	Thread     string                 // of openChild: the child
	Session    *Session               // of opened
	Step       uint8                  // of moves, as package handover numbers them
	Migration  string                 // of moves
	Import     *State                 // of moves: a thread that lived elsewhere
	Messages   []Message              // of moves: its history
	Call       string                 // of those below: the call that it is about
	Resolution *agentproto.Resolution // of resolved
	Event      *Event                 // of happened
	View       *agentproto.ViewUpdate // of viewed
	Action     uint64                 // of done: the number of the action
	Outcome    *Outcome               // of done
}

// An inputKind says what happened.
type inputKind uint8

const (
	asked        inputKind = iota + 1 // what is there? Changes nothing.
	opened                            // the first of a thread
	said                              // the user said Text
	interrupted                       // the user stops what is going on
	closed                            // the thread is over
	openChild                         // Thread is to be opened as a child
	unsubscribed                      // the user cancels the subscription of Call
	moves                             // a Step of a Migration is made
	resolved                          // Call has a Resolution
	authorizing                       // Call waits for the user to authorize it
	resumed                           // Call waits for its tool again
	happened                          // a subscription has an Event
	ended                             // the subscription of Call is over
	viewed                            // a View has another content
	done                              // an Action was performed
)

// An emission is what a step lets out. One of its fields is set.
type emission struct {
	Line   *line
	Answer *answer
}

// An answer is for whoever sent an input with a token.
type answer struct {
	Token  string
	Status Status
	Again  bool    // it was said before, under the same name
	Export *Export // of the step that sends it
}

// A State is what is remembered of a thread: part of an [Export], to be handed on as it
// is.
type State struct {
	Session  *Session // nil until the thread was opened
	Messages int      // of the history, those that are no longer kept included
	Kept     Kept
	Written  []written        // the messages from Kept.First on
	Bytes    int              // what Written counts
	Actions  uint64           // number of the last one
	Round    uint64           // number of the last one
	Asking   bool             // the last round is under way
	Rounds   int              // since the user said something
	Usage    Usage            // of all rounds whose replies are in the history
	Models   map[string]Usage // the same by the name of the model
	SaidOnce []string         // names of the last texts that have one
	Batch    []Open           // the calls of the last reply, in order, until the model is told of all
	// Background are the calls that the model knows to wait for an authorization.
	Background    []Open
	Subscriptions []Subscription
	Deferred      []Event        // what waits until the model can be told, in order
	Lost          int            // events left out since the model was last told
	LeftOut       map[string]int // of these, by the call of their subscription, those that no event has told of
	Holding       bool           // the host was asked to hold events
	// Used are the identifiers of the last calls, and UsedBefore those of the calls before.
	// Forgot says that there were others.
	Used, UsedBefore map[string]bool
	Forgot           bool
	Heard            map[string]uint64 // number of the last action of each thread that has forwarded something
	Children         []string
	Outgoing         []uint64 // actions that are performed one after another, the first being under way
	Undone           map[uint64]Action
	Views            map[string]jsontext.Value
	Closed           bool
	Move             transfer
	Owing            bool     // the model is to be asked when the thread goes on
	Held             []input  // what happened while the thread was on its way
	Wanted           []string // tokens of exports that wait until everything under way is done
}

// A transfer is a [handover.State] in types that have a name outside of this module, since a [State] has it.
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

// An Open is a call that the model was not told the result of.
type Open struct {
	Call   Call
	Result *ToolResult // nil while the call is pending
	Waits  bool        // for the user to authorize it
}

// A Subscription is a call whose result opened a subscription.
type Subscription struct {
	Call  Call
	Child bool // there is a thread for its events
}

// An Event is something that came in without the model's asking.
type Event struct {
	Call    Call
	Result  *ToolResult // of a call that the model knew to be waiting, else nil
	Text    string
	Inline  bool // it belongs into the thread that subscribed
	Final   bool // it ends the subscription
	Foreign bool // the subscription is another thread's
}
