package agentproto

import (
	"cmp"
	"slices"
	"time"
)

// A phase says where a call or a thread is, of the two hosts between which it moves.
type phase uint8

const (
	phaseHere     phase = iota
	phaseFrozen         // here, and what comes is held
	phaseExported       // frozen, and a snapshot was made
	phaseGone           // elsewhere
	phaseArriving       // resumed here and not thawed; of a call it is phaseFrozen
)

func (p phase) String() string {
	return [...]string{"here", "frozen", "exported", "gone", "arriving"}[p]
}

// A Moved is what a call says while it moves.
type Moved struct {
	Snapshot  *CallSnapshot
	Forwarded *Forwarded
}

// What a moving call has.
type moving struct {
	Migration string
	Held      []input
	Sent      int    // of Held, are in the snapshot
	Forwarded uint64 // how many were, in the snapshot or after it
	Arrived   bool   // resumed, and its open detour was not shown here
}

// elsewhere handles an input of a call that is frozen or gone.
func elsewhere(s *callState, in input, emit emitter) *Resolution {
	switch {
	case in.Call != nil: // in the moment in which its thread was frozen
		return begin(s, in.Call, emit)
	case in.Event != nil && in.Event.Order != nil:
		return follow(s, in.Event, emit)
	case s.Phase == phaseGone:
		forward(s, in, emit)
	default:
		m := s.More.Moving
		m.Held = append(m.Held, in)
	}
	return nil
}

// follow does one step of a move.
func follow(s *callState, e *event, emit emitter) *Resolution {
	switch o := e.Order; o.Key.Step {
	case stepFreeze:
		if s.State != Completed || s.subscribed() { // else nothing can happen to it
			s.Phase, s.more().Moving = phaseFrozen, &moving{Migration: o.Key.Migration}
		}
	case stepExport:
		c := snapshot(s, o)
		ask(emit, Effect{Kind: moves, State: s.State, Moved: &Moved{Snapshot: c}})
		if s.Phase == phaseFrozen {
			m := s.More.Moving
			s.Phase, m.Sent, m.Forwarded = phaseExported, len(m.Held), uint64(len(c.Held))
		}
	case stepThaw:
		return thaw(s, emit)
	case stepRelease:
		release(s, emit)
	case stepResume:
		arrive(s, e)
	}
	return nil
}

// thaw lets a call go on with what was held.
func thaw(s *callState, emit emitter) (r *Resolution) {
	if s.Phase != phaseFrozen && s.Phase != phaseExported {
		return nil
	}
	m := s.More.Moving
	s.Phase, s.More.Moving = phaseHere, nil
	if open := s.open(); open != nil && m.Arrived {
		surface(s, open, emit)
	}
	for _, in := range m.Held {
		if decided, _ := step(s, in, emit); decided != nil {
			r = decided
		}
	}
	return r
}

// release gives up a call. What came since its snapshot was made is forwarded.
func release(s *callState, emit emitter) {
	if s.Phase != phaseFrozen && s.Phase != phaseExported {
		return
	}
	m, wasHere := s.More.Moving, s.Phase == phaseExported
	if wasHere {
		withdraw(s, emit)
		ask(emit, Effect{Kind: Departed, State: s.State})
	}
	*s = callState{Phase: phaseGone, More: &more{Moving: &moving{Migration: m.Migration, Forwarded: m.Forwarded}}}
	if wasHere {
		for _, in := range m.Held[m.Sent:] {
			forward(s, in, emit)
		}
	}
}

// forward passes an input on, unless it is one of the program's own timers.
func forward(s *callState, in input, emit emitter) {
	relayed, ok := relay(in)
	if !ok {
		return
	}
	m := s.More.Moving
	m.Forwarded++
	ask(emit, Effect{Kind: moves, State: s.State, Moved: &Moved{Forwarded: &Forwarded{Migration: m.Migration, Number: m.Forwarded, Relayed: relayed}}})
}

// relay returns an input as another program takes it.
func relay(in input) (Relayed, bool) {
	if in.Result != nil {
		return Relayed{Event: Event{Kind: ResultArrived, Result: in.Result}}, true
	}
	switch in.Event.Kind {
	case lifetimeExpired, detourExpired, threadClosed, ordered:
		return Relayed{}, false
	}
	return Relayed{Event: in.Event.Event, Outcome: in.Event.Outcome}, true
}

// snapshot returns what there is of a call.
func snapshot(s *callState, o *order) *CallSnapshot {
	c := &CallSnapshot{
		Migration: o.Key.Migration,
		State:     s.State, Cause: s.Cause, Call: s.Call, Detours: s.Detours,
	}
	if s.subscribed() {
		sub := s.More.Sub
		c.Server = sub.Server
		c.Subscribed, c.Seen = true, slices.Concat(sub.Seen[sub.Next:], sub.Seen[:sub.Next])
		c.Left, c.Gap = sub.Left, sub.Gap
	}
	if s.Call != nil {
		c.Server = s.Call.Server
		c.Remaining = max(0, deadline(s, o.Move.Lifetime, o.Move.Now).Sub(o.Move.Now))
	}
	if open := s.open(); open != nil {
		c.Detour = &OpenDetour{ID: open.ID, OAuth: open.OAuth, Choice: open.Choice, Lifetime: open.Lifetime}
	}
	if s.Phase == phaseFrozen {
		for _, in := range s.More.Moving.Held {
			if relayed, ok := relay(in); ok {
				c.Held = append(c.Held, relayed)
			} else if ends(s, in.Event) {
				c.Remaining = 0
			}
		}
	}
	return c
}

// ends says whether a timer ends the state that a call is in.
func ends(s *callState, e *event) bool {
	if open := s.open(); open != nil {
		return e.Kind == detourExpired && e.Seq == open.Event
	}
	return e.Kind == lifetimeExpired && e.Seq == s.epoch()
}

// deadline returns when the state that a call is in has to end. A call that does not say when
// it was made has its whole lifetime again.
func deadline(s *callState, lifetime time.Duration, now time.Time) time.Time {
	if open := s.open(); open != nil {
		return open.Since.Add(open.Timeout)
	}
	since, lasts := s.Call.Made, cmp.Or(s.Call.Lifetime, lifetime)
	if s.epoch() != 0 {
		since, lasts = s.More.Since, cmp.Or(s.More.Lifetime, lifetime)
	}
	if since.IsZero() {
		since = now
	}
	return since.Add(lasts)
}

// arrive takes a call in as it was elsewhere, frozen. What was held there is relayed by
// [Program.Call], so that it has its timers here. One that is completed here stays so.
func arrive(s *callState, e *event) {
	c, seq := e.Order.Move.Snapshot, e.Order.Move.Seq
	if s.State == Completed && !s.subscribed() {
		return
	}
	*s = callState{Call: c.Call, State: c.State, Cause: c.Cause, Detours: c.Detours}
	if c.State == Completed && !c.Subscribed {
		return
	}
	m := &moving{Migration: c.Migration, Arrived: true}
	s.Phase, s.More = phaseFrozen, &more{Moving: m, Epoch: seq, Since: e.At, Lifetime: max(c.Remaining, 1)}
	if d := c.Detour; d != nil {
		s.More.Open = &openDetour{
			ID: d.ID, Event: seq, OAuth: d.OAuth, Choice: d.Choice, Lifetime: d.Lifetime,
			Since: e.At, Timeout: max(c.Remaining, 1),
		}
	}
	if c.Subscribed {
		s.More.Sub = &subscription{Key: c.Key, Server: c.Server, Seen: slices.Clone(c.Seen), Left: c.Left, Gap: c.Gap}
	}
}
