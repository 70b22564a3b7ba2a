package conversation

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// child opens a child thread, in which the user says text unless that is empty.
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
		Outgoing: s.Outgoing, Undone: s.Undone, Heard: s.Heard, Closed: true,
	}
}

// isMove says whether an input is a step of a move, which closed threads make too.
func isMove(k inputKind) bool {
	return k == frozen || k == thawed || k == exported || k == moved
}

// whileFrozen says whether an input is handled although the thread is frozen.
func whileFrozen(k inputKind) bool {
	return isMove(k) || k == viewed || k == closed
}

// freeze stops the thread: the round that is under way is abandoned, and begun again
// when the thread is thawed.
func (t *turn) freeze() {
	if !t.s.Frozen {
		t.s.Frozen, t.s.Owing = true, t.s.Asking
		t.abandon()
	}
}

// thaw goes on with what waited, in order.
func (t *turn) thaw() {
	s := t.s
	if !s.Frozen {
		return
	}
	held, owing := s.Held, s.Owing
	s.Frozen, s.Exported, s.Owing, s.Held = false, false, false, nil
	if owing {
		t.ask()
	} else {
		t.advance()
	}
	for _, in := range held {
		if !s.Closed {
			t.handle(in)
		}
	}
}

// export answers with everything there is of the thread, once nothing is under way.
func (t *turn) export(token string) {
	t.s.Wanted = append(t.s.Wanted, token)
	t.exportWanted()
}

func (t *turn) exportWanted() {
	s := t.s
	if len(s.Wanted) == 0 || len(s.Undone) > 0 {
		return
	}
	wanted := s.Wanted
	s.Wanted, s.Exported = nil, true
	for _, token := range wanted {
		t.emit(emission{Answer: &answer{Token: token, Status: t.status(""), Export: &Export{Thread: s.Session.ID, State: s.copy()}}})
	}
}

// copy returns a state that shares nothing that changes.
func (s *State) copy() *State {
	c := *s
	c.Batch, c.Background = slices.Clone(s.Batch), slices.Clone(s.Background)
	c.Subscriptions, c.Deferred = slices.Clone(s.Subscriptions), slices.Clone(s.Deferred)
	c.Children, c.Outgoing, c.Held = slices.Clone(s.Children), nil, slices.Clone(s.Held)
	c.Written, c.Heard = slices.Clone(s.Written), maps.Clone(s.Heard)
	c.UsedBefore = maps.Clone(s.UsedBefore)
	c.Used, c.Views, c.Undone, c.Exported = maps.Clone(s.Used), maps.Clone(s.Views), nil, false
	c.LeftOut = maps.Clone(s.LeftOut)
	return &c
}

// install makes the thread of one that lived elsewhere. It stays frozen.
func (t *turn) install(in input) {
	*t.s = *in.Import.copy()
	s := t.s
	s.Frozen, s.Undone = true, map[uint64]Action{}
	if s.Used == nil {
		s.Used = map[string]bool{}
	}
	if s.Views == nil {
		s.Views = map[string]jsontext.Value{}
	}
	for _, m := range in.Messages {
		t.emit(emission{Line: &line{N: m.N, Message: &m}})
	}
}

// move forgets a thread that lives elsewhere.
func (t *turn) move() {
	s := t.s
	*s = State{Session: s.Session, Messages: s.Messages, Kept: s.Kept, Actions: s.Actions, Round: s.Round, Moved: true}
}

// A Status is what a thread stands at.
type Status struct {
	// Refused says why the thread did not take in what it was told, if it did not.
	Refused string
	Session *Session // nil for a thread that was never opened

	Messages      int       // how many there are in the history, those that are no longer kept included
	Kept          Kept      // the messages that are kept
	Asking        bool      // the model is being asked
	Pending       []Pending // calls without a result
	Subscriptions []Call    // the calls that opened them
	Deferred      int       // what waits until calls are settled
	Children      []string
	Views         map[string]jsontext.Value // by view_type

	Closed, Frozen, Moved bool
}

// A Pending is a call that has no result yet.
type Pending struct {
	Call Call
	// Authorizing says that it waits for the user to authorize its tool, Told that the
	// model knows and goes on meanwhile.
	Authorizing, Told bool
}

// The reasons of [Status].Refused.
const (
	refusedUnknown  = "there is no such thread"
	refusedClosed   = "the thread is closed"
	refusedMoved    = "the thread lives elsewhere"
	refusedMoving   = "the thread is on its way elsewhere"
	refusedThawed   = "the thread is not frozen"
	refusedNoSubscr = "the thread has no such subscription"
	refusedChildren = "the thread has too many children"
)

// refuses says why the thread does not take in an input.
func (t *turn) refuses(in input) string {
	s, k := t.s, in.Kind
	switch {
	case k == asked, k == done:
		return ""
	case s.Session == nil && k != opened:
		return refusedUnknown
	case s.Session == nil, k == opened:
		return ""
	case s.Closed && k != closed && !isMove(k):
		return refusedClosed
	case s.Moved:
		return refusedMoved
	case s.Exported && (k == said || k == interrupted || k == openChild || k == unsubscribed || k == closed):
		return refusedMoving
	case !s.Frozen && (k == exported || k == moved):
		return refusedThawed
	case k == openChild && t.full() && !slices.Contains(s.Children, in.Thread):
		return refusedChildren
	case k == unsubscribed && t.subscription(in.Call) < 0:
		return refusedNoSubscr
	}
	return ""
}

// status describes the thread.
func (t *turn) status(refused string) Status {
	s := t.s
	st := Status{
		Refused: refused, Session: s.Session, Messages: s.Messages, Kept: s.Kept, Asking: s.Asking, Deferred: len(s.Deferred),
		Children: slices.Clone(s.Children), Views: maps.Clone(s.Views), Closed: s.Closed, Frozen: s.Frozen, Moved: s.Moved,
	}
	for _, o := range s.Batch {
		if o.Result == nil {
			st.Pending = append(st.Pending, Pending{Call: o.Call, Authorizing: o.Waits})
		}
	}
	for _, o := range s.Background {
		st.Pending = append(st.Pending, Pending{Call: o.Call, Authorizing: true, Told: true})
	}
	for _, sub := range s.Subscriptions {
		st.Subscriptions = append(st.Subscriptions, sub.Call)
	}
	return st
}
