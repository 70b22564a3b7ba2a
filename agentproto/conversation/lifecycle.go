package conversation

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/internal/handover"
)

// child opens a child thread, in which the user says text unless it is empty.
func (t *turn) child(id, text string) {
	if slices.Contains(t.s.Children, id) || t.full() {
		return
	}
	t.s.Children = append(t.s.Children, id)
	t.forward(id, input{Kind: opened, Session: t.s.Session.child(id), Text: text})
}

// full reports whether the thread has as many children as it may have.
func (t *turn) full() bool { return len(t.s.Children) >= t.limits.Children }

// close ends the thread and its children: cases X01 to X03.
func (t *turn) close() {
	s := t.s
	t.abandon()
	for i := range s.Batch {
		if o := &s.Batch[i]; o.Result == nil {
			o.Result = textResult(o.Call.ID, "Error: the thread was closed")
		}
	}
	t.report()
	t.perform(Action{Kind: EndThread})
	for _, id := range s.Children {
		t.forward(id, input{Kind: closed})
	}
	t.write(Message{Kind: Closed})
	*s = State{
		Session: s.Session, Messages: s.Messages, Kept: s.Kept, Actions: s.Actions, Round: s.Round,
		Outgoing: s.Outgoing, Undone: s.Undone, Heard: s.Heard, Closed: true, Move: s.Move,
		Usage: s.Usage, Models: s.Models,
	}
}

// A Status describes the state of a thread.
type Status struct {
	// Refused says why the thread refused an input, or is empty.
	Refused string
	Session *Session // nil for a thread that was never opened

	Messages      int              // how many the history has, including those that are no longer kept
	Kept          Kept             // the messages that are kept
	Asking        bool             // the model is being asked
	Pending       []Pending        // calls without a result
	Subscriptions []Call           // the calls that opened the subscriptions
	Deferred      int              // how many events and late results wait until calls are settled
	Usage         Usage            // of all rounds whose replies are in the history, including those no longer kept
	Models        map[string]Usage // the same by the name of the model
	Children      []string
	Views         map[string]jsontext.Value // by view_type

	Closed, Frozen, Moved bool
}

// A Pending is a call that has no result yet.
type Pending struct {
	Call Call
	// Authorizing says that the call waits for the user to authorize its tool. Told says that the model knows this and has gone
	// on.
	Authorizing, Told bool
}

// The reasons of [Status].Refused.
const (
	refusedUnknown  = "there is no such thread"
	refusedClosed   = "the thread is closed"
	refusedMoved    = "the thread lives elsewhere"
	refusedMoving   = "the thread is on its way elsewhere"
	refusedNoSubscr = "the thread has no such subscription"
	refusedChildren = "the thread has too many children"
)

// refuses returns why the thread refuses an input, or "".
func (t *turn) refuses(in input) string {
	s, k := t.s, in.Kind
	switch {
	case k == asked, k == done:
		return ""
	case s.Session == nil && k != opened:
		return refusedUnknown
	case s.Session == nil, k == opened:
		return ""
	case s.Move.place() == handover.Gone:
		return refusedMoved
	case s.Closed && k != closed:
		return refusedClosed
	case in.From == "" && fromUser(k) && (s.Move.place() == handover.Doubt || s.Move.place() == handover.Staged): // lost if the thread is elsewhere by then
		return refusedMoving
	case k == openChild && t.full() && !slices.Contains(s.Children, in.Thread):
		return refusedChildren
	case k == unsubscribed && t.subscription(in.Call) < 0:
		return refusedNoSubscr
	}
	return ""
}

// fromUser reports whether the sender of an input learns whether it was accepted.
func fromUser(k inputKind) bool {
	return k == said || k == interrupted || k == openChild || k == unsubscribed || k == closed || k == viewed
}

// status describes the thread.
func (t *turn) status(refused string) Status {
	s := t.s
	st := Status{
		Refused: refused, Session: s.Session, Messages: s.Messages, Kept: s.Kept, Asking: s.Asking, Deferred: len(s.Deferred),
		Children: slices.Clone(s.Children), Views: maps.Clone(s.Views), Closed: s.Closed, Usage: s.Usage, Models: maps.Clone(s.Models),
		Frozen: s.Move.place().Still(), Moved: s.Move.place() == handover.Gone,
	}
	st.Pending = s.pending()
	for _, sub := range s.Subscriptions {
		st.Subscriptions = append(st.Subscriptions, sub.Call)
	}
	return st
}

// pending returns the calls without a result.
func (s *State) pending() (all []Pending) {
	for _, o := range s.Batch {
		if o.Result == nil {
			all = append(all, Pending{Call: o.Call, Authorizing: o.Waits})
		}
	}
	for _, o := range s.Background {
		all = append(all, Pending{Call: o.Call, Authorizing: true, Told: true})
	}
	return all
}
