package conversation

import (
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/internal/handover"
)

// move does a step of a migration, or returns why not. If actions are in progress, an export is answered later.
func (t *turn) move(in input) (refused string) {
	s, m, step := t.s, t.s.Move.state(), handover.Step(in.Step)
	switch {
	case s.Session == nil && m.Place != handover.None && step != handover.Stage:
		return refusedUnknown
	case s.Session == nil:
		m.Place = handover.None
	}
	if m.Place == handover.Frozen && step == handover.Send && len(s.Undone) > 0 && in.Migration == m.Transfer {
		s.Wanted = append(s.Wanted, in.Token)
		return ""
	}
	changed, why := m.Take(step, in.Migration)
	if why != "" {
		return why
	}
	switch was := s.Move.place(); {
	case step == handover.Send:
		s.Move = transferOf(m)
		t.export(in.Token)
		return ""
	case !changed:
	case step == handover.Stage:
		t.install(in)
	case step == handover.Freeze:
		t.freeze()
	case m.Place == handover.Here:
		s.Move = transferOf(m)
		t.goOn()
	default:
		t.leave(was == handover.Staged && m.Place == handover.None)
	}
	s.Move = transferOf(m)
	if in.Token != "" {
		t.emit(emission{Answer: &answer{Token: in.Token, Status: t.status("")}})
	}
	return ""
}

// freeze stops the thread. A running round is abandoned, and repeated when the thread goes on.
func (t *turn) freeze() {
	t.s.Owing = t.s.Asking
	t.abandon()
}

// goOn continues with the inputs that waited, in order.
func (t *turn) goOn() {
	s := t.s
	held, owing := s.Held, s.Owing
	s.Owing, s.Held = false, nil
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

// export answers with the complete state of the thread.
func (t *turn) export(token string) {
	s := t.s
	t.emit(emission{Answer: &answer{Token: token, Status: t.status(""), Export: &Export{Thread: s.Session.ID, State: s.copy()}}})
}

// exportWanted answers the exports that waited for actions to finish.
func (t *turn) exportWanted() {
	if len(t.s.Undone) > 0 {
		return
	}
	wanted := t.s.Wanted
	t.s.Wanted = nil
	for _, token := range wanted {
		if why := t.move(input{Step: uint8(handover.Send), Migration: t.s.Move.Transfer, Token: token}); why != "" {
			t.emit(emission{Answer: &answer{Token: token, Status: t.status(why)}})
		}
	}
}

// copy returns a copy of the state that shares nothing mutable.
func (s *State) copy() *State {
	c := *s
	c.Batch, c.Background = slices.Clone(s.Batch), slices.Clone(s.Background)
	c.Subscriptions, c.Deferred = slices.Clone(s.Subscriptions), slices.Clone(s.Deferred)
	c.Children, c.Outgoing, c.Held = slices.Clone(s.Children), nil, slices.Clone(s.Held)
	c.Written, c.Heard = slices.Clone(s.Written), maps.Clone(s.Heard)
	c.UsedBefore = maps.Clone(s.UsedBefore)
	c.Used, c.Views, c.Undone = maps.Clone(s.Used), maps.Clone(s.Views), nil
	c.LeftOut, c.Models, c.SaidOnce = maps.Clone(s.LeftOut), maps.Clone(s.Models), slices.Clone(s.SaidOnce)
	return &c
}

// install creates the thread from an import. It does not run yet.
func (t *turn) install(in input) {
	*t.s = *in.Import.copy()
	s := t.s
	s.Undone = map[uint64]Action{}
	if s.Used == nil {
		s.Used = map[string]bool{}
	}
	if s.Views == nil {
		s.Views = map[string]jsontext.Value{}
	}
	for _, m := range in.Messages {
		t.emit(emission{Line: &line{N: m.N, Message: &m, Back: true}})
	}
}

// leave forgets a thread that has moved away or was staged and aborted; the latter as a whole.
func (t *turn) leave(whole bool) {
	s := t.s
	if whole {
		t.dropAll(0)
		*s = State{}
		return
	}
	*s = State{Session: s.Session, Messages: s.Messages, Kept: s.Kept, Actions: s.Actions, Round: s.Round}
}
