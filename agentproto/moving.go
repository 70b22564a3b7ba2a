package agentproto

import (
	"cmp"
	"slices"
	"time"

	"github.com/millrace/millrace/agentproto/internal/handover"
)

// A Moved is what a call emits while it moves.
type Moved struct {
	Snapshot *CallSnapshot
}

// A moving is the state of a call that moves or has moved away.
type moving struct {
	Migration string
	Held      []input
	Sent      int    // how many of Held are in the snapshot
	Forwarded uint64 // how many inputs were forwarded, in the snapshot or after it
	Passing   int    // how many of these [ProgramOptions].Forward has not passed on yet
}

// elsewhere handles an input of a call that is moving or gone.
func (t turn) elsewhere(in input) {
	switch {
	case in.Call != nil: // its thread has come back, and the call is new
		if t.s.Place == handover.Gone {
			t.do.Emit(emission{Result: resultGone})
			*t.s = callState{}
		}
		t.begin(in)
	case in.Event != nil && in.Event.Order != nil:
		t.follow(in.Event)
	case t.s.Place == handover.Gone:
		t.forward(in)
	default:
		m := t.s.More.Moving
		m.Held = append(m.Held, in)
	}
}

// follow moves the call to the place of its thread.
func (t turn) follow(e *event) {
	s := t.s
	switch o := e.Order; o.Place {
	case handover.Frozen:
		if s.Call != nil || s.subscribed() { // otherwise nothing can happen to it
			s.Place, s.more().Moving = handover.Frozen, &moving{Migration: o.Key.Migration}
		}
	case handover.Doubt:
		c := t.snapshot(o)
		t.ask(Effect{Kind: moves, State: s.State, Moved: &Moved{Snapshot: c}})
		if s.Place == handover.Frozen {
			m := s.More.Moving
			s.Place, m.Sent, m.Forwarded = handover.Doubt, len(m.Held), uint64(len(c.Held))
		}
	case handover.Staged:
		t.arrive(e)
	case handover.Here:
		t.goOnHere()
	default:
		t.release()
	}
}

// goOnHere lets a call go on with the held inputs.
func (t turn) goOnHere() {
	s := t.s
	if !s.Place.Still() {
		return
	}
	m, came := s.More.Moving, s.Place == handover.Staged
	s.Place, s.More.Moving = handover.Here, nil
	if came {
		t.lasts() // its key was put at the source
		if open := s.open(); open != nil {
			t.surface(open)
		}
	}
	for _, in := range m.Held {
		t.take(in)
	}
}

// release gives up a call. Inputs that arrived after its snapshot was made are forwarded.
func (t turn) release() {
	s := t.s
	if !s.Place.Still() {
		return
	}
	m, wasHere := s.More.Moving, s.Place == handover.Doubt
	if wasHere {
		t.withdraw()
		t.ask(Effect{Kind: Departed, State: s.State})
	}
	*s = callState{Place: handover.Gone, Armed: s.Armed + 1, Cause: s.Cause, Large: s.Large, More: &more{Moving: &moving{Migration: m.Migration, Forwarded: m.Forwarded}}}
	if t.retain > 0 {
		t.do.After(deadline, max(t.retain, movedRetention))
	}
	if wasHere {
		for _, in := range m.Held[m.Sent:] {
			t.forward(in)
		}
	}
}

// forward passes an input on, unless it is one of the program's own timers.
func (t turn) forward(in input) {
	relayed, ok := relay(in)
	if !ok {
		return
	}
	m := t.s.More.Moving
	m.Forwarded++
	if t.forwards {
		m.Passing++
		t.do.Call(request{Forward: &Forwarded{Key: t.do.Key(), Migration: m.Migration, Number: m.Forwarded, Relayed: relayed}})
	}
}

// passing reports whether an input is still to be forwarded.
func (s *callState) passing() bool {
	return s.Place == handover.Gone && s.More.Moving.Passing > 0
}

// forwardClosure forwards the closure of a thread that has moved away. It runs under a key that no call has, because the thread
// may have had no calls.
func (t turn) forwardClosure(migration string) {
	if t.forwards {
		t.s.Place, t.s.more().Moving = handover.Gone, &moving{Migration: migration}
		t.do.Call(request{Forward: &Forwarded{Key: t.do.Key(), Migration: migration, Relayed: Relayed{Event: Event{Kind: threadClosed}}}})
	}
}

// performed updates the state after a request was performed.
func performed(s *callState, q request, _ bool, do *doing) {
	switch {
	case q.Forward == nil:
	case q.Forward.Key.ID == "":
		do.Forget()
	case s.passing():
		s.More.Moving.Passing--
	}
}

// relay returns an input in the form that another program accepts.
func relay(in input) (Relayed, bool) {
	if in.Result != nil {
		return Relayed{Event: Event{Kind: ResultArrived, Result: in.Result, Incarnation: in.Incarnation}}, true
	}
	switch in.Event.Kind {
	case deadlineOver, threadClosed, ordered:
		return Relayed{}, false
	case AnswerFailed: // the tool server may have moved with the session, and asks anew from there
		return Relayed{}, false
	}
	return Relayed{Event: in.Event.Event, Outcome: in.Event.Outcome}, true
}

// snapshot returns the state of a call for a move.
func (t turn) snapshot(o *order) *CallSnapshot {
	s := t.s
	c := &CallSnapshot{
		Migration: o.Key.Migration,
		State:     s.State, Cause: s.Cause, Call: s.Call, Detours: s.Detours,
	}
	if s.Call == nil { // also of one that is forgotten
		c.State = Completed
	}
	if s.subscribed() {
		sub := s.More.Sub
		c.Server, c.Incarnation = sub.Server, sub.Incarnation
		c.Subscribed, c.Seen = true, slices.Concat(sub.Seen[sub.Next:], sub.Seen[:sub.Next])
		c.Left, c.Gap = sub.Left, sub.Gap
		if h := s.Heard; h != nil {
			c.Operation, c.Heard, c.Kept = h.Operation, h.Last, slices.Clone(h.Texts)
		}
	}
	if s.Call != nil {
		c.Server = s.Call.Server
		c.Remaining = max(0, ends(s, t.lifetime, o.Move.Now).Sub(o.Move.Now))
	}
	if open := s.open(); open != nil {
		c.Detour = &OpenDetour{ID: open.ID, OAuth: open.OAuth, Choice: open.Choice, Values: open.Values, Lifetime: open.Lifetime}
	}
	if s.Place == handover.Frozen {
		for _, in := range s.More.Moving.Held {
			if relayed, ok := relay(in); ok {
				c.Held = append(c.Held, relayed)
			} else if in.Event.Kind == deadlineOver && in.Event.Armed == s.Armed && s.Call != nil {
				c.Remaining = 0
			}
		}
	}
	return c
}

// ends returns when the present state of a call has to end. A call without a Made time gets its whole lifetime again.
func ends(s *callState, lifetime time.Duration, now time.Time) time.Time {
	if open := s.open(); open != nil {
		return open.Since.Add(open.Timeout)
	}
	since, lasts := s.Call.Made, cmp.Or(s.Call.Lifetime, lifetime)
	if s.More != nil && !s.More.Since.IsZero() {
		since, lasts = s.More.Since, cmp.Or(s.More.Lifetime, lifetime)
	}
	if since.IsZero() {
		since = now
	}
	return since.Add(lasts)
}

// arrive takes in a call that was exported elsewhere. [Program.Stage] relays the inputs that were held there. A call that is
// completed here stays completed.
func (t turn) arrive(e *event) {
	s, c := t.s, e.Order.Move.Snapshot
	if s.State == Completed && !s.subscribed() {
		return
	}
	*s = callState{Call: c.Call, State: c.State, Cause: c.Cause, Detours: c.Detours, Armed: s.Armed, Large: s.Large}
	if c.State == Completed && !c.Subscribed {
		t.over()
		return
	}
	t.goesOn()
	s.Place, s.More = handover.Staged, &more{Moving: &moving{Migration: c.Migration}, Since: e.At, Lifetime: max(c.Remaining, 1)}
	if c.Subscribed {
		s.More.Sub = &subscription{Key: c.Key, Server: c.Server, Incarnation: c.Incarnation, Seen: slices.Clone(c.Seen), Left: c.Left, Gap: c.Gap}
		if c.Operation != "" {
			s.Heard = &heard{Operation: c.Operation, Last: c.Heard, Texts: slices.Clone(c.Kept)}
		}
		t.listen()
		return
	}
	again := *c.Call
	again.Incarnation += 1 << 8 // so its detours get other numbers than when it was here before
	s.Call = &again
	t.arm(s.More.Lifetime)
	if d := c.Detour; d != nil {
		s.More.Open = &openDetour{
			ID: d.ID, Number: again.Incarnation + uint64(c.Detours), OAuth: d.OAuth, Choice: d.Choice, Values: d.Values, Lifetime: d.Lifetime,
			Since: e.At, Timeout: max(c.Remaining, 1),
		}
	}
}
