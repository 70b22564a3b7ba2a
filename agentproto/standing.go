package agentproto

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/dataflow"
)

// A Standing is where a call stands, for people who look at a program that runs.
type Standing struct {
	Key   CallKey
	State State
	Cause Cause // of the resolution; 0 until there is one

	// What follows is forgotten when the call is resolved.
	Operation string
	Server    string   // that of the call
	Ancestors []string // of its thread, from the root on
	UserID    string
	Made      time.Time

	Since  time.Time // of the detour that it is in; zero if it is in none
	Detour string    // what it asks the user: the name of the detour
	Prompt *Prompt   // the same, as it is shown; nil if it is in no detour. It is not to be changed

	Values jsontext.Value // what the user has filled in so far of the form of that; nil for nothing

	Detours int // how many detours it has been in, with the one that it is in

	Subscribed bool   // it has an open subscription
	Place      string // "here", or how far it is on its way to another program
}

// EachCall calls do with calls that an app remembers whose flow has a [Program], pending and resolved ones: a page of so many
// at most. It is as [dataflow.EachState] in everything else.
func EachCall(ctx context.Context, app dataflow.Remembering, from dataflow.StatePlace, most int, do func(Standing)) (next dataflow.StatePlace, more bool, err error) {
	var page []Standing
	next, more, err = dataflow.EachState(ctx, app, from, most, func(k CallKey, s *callState) { page = append(page, s.standing(k)) })
	if err != nil {
		return next, false, err
	}
	for _, s := range page {
		do(s)
	}
	return next, more, nil
}

// StandingOf returns where a call stands, and reports false if the app does not remember it.
func StandingOf(ctx context.Context, app dataflow.Remembering, key CallKey) (st Standing, found bool, err error) {
	found, err = dataflow.StateOf(ctx, app, key, func(s *callState) { st = s.standing(key) })
	if err != nil || !found {
		return Standing{}, false, err
	}
	return st, true, nil
}

// standing returns where the call stands. It keeps nothing that the call may change.
func (s *callState) standing(k CallKey) Standing {
	st := Standing{Key: k, State: s.State, Cause: s.Cause, Detours: int(s.Detours), Subscribed: s.subscribed(), Place: handover.Place(s.Place).String()}
	if st.Subscribed {
		st.Server = s.More.Sub.Server
	}
	if c := s.Call; c != nil {
		st.Server, st.Operation, st.Made = c.Server, c.operation(), c.Made
		if c.Invocation != nil {
			st.Ancestors = slices.Clone(c.Invocation.ThreadAncestors)
			if c.Invocation.UserID != nil {
				st.UserID = *c.Invocation.UserID
			}
		}
	}
	if open := s.open(); open != nil {
		st.Detour, st.Since, st.Values = open.ID, open.Since, open.Values
		st.Prompt = &Prompt{
			Key: k, Number: open.Number, Detour: open.ID, OAuth: open.OAuth, Choice: open.Choice,
			Server: st.Server, Lifetime: open.Lifetime, Operation: st.Operation,
		}
	}
	return st
}
