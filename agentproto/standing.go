package agentproto

import (
	"context"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/internal/handover"
	"github.com/millrace/millrace/dataflow"
)

// A Standing describes the state of a call, for people who inspect a running program.
type Standing struct {
	Key   CallKey
	State State
	Cause Cause // of the resolution; 0 while there is none

	// The following fields are forgotten when the call is resolved.
	Operation string
	Server    string   // that of the call
	Ancestors []string // of its thread, from the root down
	UserID    string
	Made      time.Time

	Since  time.Time // when its open detour began; zero without one
	Detour string    // the name of its open detour
	Prompt *Prompt   // the open detour as it is shown; nil without one. It must not be changed

	Values jsontext.Value // what the user has filled in so far of its form; nil for nothing

	Detours int // how many detours it has opened, including the open one

	Subscribed bool   // it has an open subscription
	Place      string // "here", or the stage of its move to another program
}

// EachCall calls do for one page of the calls that an app with a [Program] remembers, pending and resolved: for at most most of them.
// In everything else it is like [dataflow.EachState].
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

// StandingOf returns the state of a call. It reports false if the app does not remember the call.
func StandingOf(ctx context.Context, app dataflow.Remembering, key CallKey) (st Standing, found bool, err error) {
	found, err = dataflow.StateOf(ctx, app, key, func(s *callState) { st = s.standing(key) })
	if err != nil || !found {
		return Standing{}, false, err
	}
	return st, true, nil
}

// standing describes the call. The result shares nothing that the call may change.
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
