package conversation

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// A Session holds the settings of a thread, which are fixed when it is opened. A child thread has those of its parent, except ID
// and Ancestors.
type Session struct {
	// ID is the identifier of the thread.
	ID string
	// UserID identifies the user to tools. Empty means that tools do not learn who the user is.
	UserID string
	// Images says that the model takes images. Otherwise each image of a result becomes a text.
	Images bool
	// Instructions are for the model and precede everything else.
	Instructions string
	// Model names the model of the thread, if there are several: see [Models]. Empty means the default.
	Model string
	// Ancestors are the threads from the root to the parent; none for a root thread.
	Ancestors []string
}

// Root returns the identifier of the root thread of the session.
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

// EventTool is the reserved name under which a model is shown what arrived unasked: an event of a subscription, or the late
// result of a call that waited for an authorization. It looks as if the model had called this tool and got this result. The
// arguments of the call are kind ("event" or "result"), and tool_call_id, tool and arguments of the call that it is about. A
// model that calls this tool gets an error: case S10.
const EventTool = "incoming_event"

// CancelTool is the name of the tool with which a model ends a subscription of its
// thread. It takes one argument, tool_call_id, and answers at once: cases S05 and S06.
const CancelTool = "cancel_subscription"

// ChildOf returns the identifier of the child thread that handles the non-associative events of a subscription. There is one such
// thread for each subscription, and it belongs to the session: see [agentproto.InSession].
func ChildOf(thread, callID string) string {
	sum := sha256.Sum256([]byte("events\x00" + thread + "\x00" + callID))
	return agentproto.InSession(thread, "events-"+base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:15]))
}

// Limits bound the resources of a thread. A zero field means the default that its comment names.
type Limits struct {
	// Text is how many bytes of a text of a result or an event the model is shown. A longer text is cut and says so. Zero means
	// 256 KiB.
	Text int
	// Calls is how many calls of one reply are made; the others get an error. Zero means 128.
	Calls int
	// Children is how many children a thread may open in total. After that, the events of further subscriptions go to the thread
	// itself. Zero means 1,000.
	Children int
	// Rounds is how often the model is asked before the user has to say something again. It stops a model that loops. Zero means
	// 1,000.
	Rounds int
	// Deferred is how many events may wait until the model can be told, and DeferredBytes how many bytes, each event counting 256
	// bytes in addition to its text. When a limit is reached, [Host].HoldEvents asks tool servers to stop. Events that are
	// already under way are still queued, up to 16 times the number and 4 times the bytes. Further ones are dropped; the next
	// event of the subscription and a [Notice] say so. The last event of a subscription is never dropped. Zero means 256 and 1 MiB.
	Deferred, DeferredBytes int
	// History is how many bytes of messages a thread keeps, each counting 256 bytes in addition to its texts. Beyond that the
	// oldest are dropped, and the model is told how many. Calls stay with their results, and the user's last message always
	// stays. Zero means 4 MiB.
	History int
	// Retain is how long a closed thread is kept. Zero means 24 hours; a negative value means forever. A thread that has moved
	// away is known for at least seven days.
	Retain time.Duration
	// Idle is how long a thread may be without input before it is closed. Zero means 30 days; a negative value means that idle
	// threads are not closed.
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
