package conversation

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// A Session is what is settled about a thread when it is opened. A child thread has the
// one of its parent, but for its place.
type Session struct {
	// ID is the thread's own identifier.
	ID string
	// UserID identifies the user to tools. Empty means that tools are not told.
	UserID string
	// Images says that the model takes images. Where it does not, each image of a result
	// becomes a text.
	Images bool
	// Instructions are for the model, in front of everything else.
	Instructions string
	// Model names the model of the thread, where there are several: see [Models]. Empty is the default.
	Model string
	// Ancestors are the threads from the root to the parent; none for a root thread.
	Ancestors []string
}

// Root returns the identifier of the thread that the session began with.
func (s *Session) Root() string {
	if len(s.Ancestors) > 0 {
		return s.Ancestors[0]
	}
	return s.ID
}

// child returns the session of a child thread.
func (s *Session) child(id string) *Session {
	child := *s
	child.ID = id
	child.Ancestors = append(s.Ancestors[:len(s.Ancestors):len(s.Ancestors)], s.ID)
	return &child
}

// EventTool is the reserved name under which a model is shown what came in without its
// asking: the event of a subscription, and the result of a call that it was told to be
// waiting for an authorization. It looks as if the model had called this tool and got
// this result; the arguments of the call are kind ("event" or "result"), tool_call_id,
// tool and arguments, those of the call that it is about. A model that calls it gets an
// error: case S10.
const EventTool = "incoming_event"

// CancelTool is the name of the tool with which a model ends a subscription of its
// thread. It takes one argument, tool_call_id, and answers at once: cases S05 and S06.
const CancelTool = "cancel_subscription"

// ChildOf returns the identifier of the thread that handles the events of a subscription
// that do not belong into the thread that subscribed: one thread for each subscription, which
// is kept with the session: see [agentproto.InSession].
func ChildOf(thread, callID string) string {
	sum := sha256.Sum256([]byte("events\x00" + thread + "\x00" + callID))
	return agentproto.InSession(thread, "events-"+base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:15]))
}

// Limits bound what a thread does. The zero value of each field is the default that its
// comment names.
type Limits struct {
	// Text is how many bytes of a text of a result or an event the model is shown. What
	// is longer is cut, which the text then says. Zero means 256 KiB.
	Text int
	// Calls is how many calls of one reply are made; those beyond it get an error. Zero
	// means 128.
	Calls int
	// Children is how many children a thread may have had. When it has as many, the events of
	// further subscriptions come into the thread itself. Zero means 1,000.
	Children int
	// Rounds is how often the model is asked before the user has to say something
	// again, so that a model that goes round in circles ends. Zero means 1,000.
	Rounds int
	// Deferred is how many events may wait until the model can be told, and DeferredBytes how
	// many bytes, each counting 256 besides its text. From then on [Host].HoldEvents asks for none. What is on
	// its way by then may be 16 times as many and 4 times as many bytes; what comes beyond that is
	// left out, which the next event of its subscription says, and a [Notice]. The last event of a subscription is never left
	// out. Zero means 256 and 1 MiB.
	Deferred, DeferredBytes int
	// History is how many bytes of messages a thread keeps, each counting 256 besides its texts. Of
	// more, the oldest are dropped, and the model is told how many; calls stay with their
	// results, and so does what the user said last. Zero means 4 MiB.
	History int
	// Retain is how long a thread is kept that is closed. Zero means 24 hours, and less than
	// zero means for ever. One that has moved away is known for seven days at least.
	Retain time.Duration
	// Idle is how long nothing may happen to a thread before it is closed. Zero means 30 days,
	// and less than zero means that threads are not closed so.
	Idle time.Duration
}

func (l Limits) withDefaults() Limits {
	set := func(n *int, to int) {
		if *n == 0 {
			*n = to
		}
	}
	set(&l.Text, 256<<10)
	set(&l.Calls, 128)
	set(&l.Children, 1000)
	set(&l.Rounds, 1000)
	set(&l.Deferred, 256)
	set(&l.DeferredBytes, 1<<20)
	set(&l.History, 4<<20)
	l.Retain = cmp.Or(l.Retain, 24*time.Hour)
	l.Idle = cmp.Or(l.Idle, 30*24*time.Hour)
	return l
}
