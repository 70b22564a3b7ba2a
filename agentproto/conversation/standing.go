package conversation

import (
	"context"
	"maps"
	"slices"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow"
)

// A Standing describes the state of a thread, for people who inspect a running program. It is a short form of [Status].
type Standing struct {
	ID        string
	UserID    string
	Ancestors []string // from the root to the parent; none for a root thread

	Messages      int       // how many the history has, including those that are no longer kept
	Asking        bool      // the model is being asked
	Pending       int       // calls without a result
	Calls         []Pending // these calls
	Authorizing   int       // how many of these wait for the user to authorize their tools
	Subscriptions int
	Deferred      int // how many events and late results wait until calls are settled
	Children      int
	Views         int
	Usage         Usage            // of all rounds whose replies are in the history
	Models        map[string]Usage // the same by the name of the model
	Model         string           // the model that the session names; empty is the default
	Closed        bool
	Place         string // "here", or the stage of its move to another host
}

// EachThread calls do for one page of the threads that an app with a [Program] remembers: for at most most of them. In everything
// else it is like [dataflow.EachState].
func EachThread(ctx context.Context, app dataflow.Remembering, from dataflow.StatePlace, most int, do func(Standing)) (next dataflow.StatePlace, more bool, err error) {
	var page []Standing
	next, more, err = dataflow.EachState(ctx, app, from, most, func(id agentproto.ThreadID, s *State) {
		page = append(page, s.standing(string(id)))
	})
	if err != nil {
		return next, false, err
	}
	for _, s := range page {
		do(s)
	}
	return next, more, nil
}

// StandingOf returns the state of a thread. It reports false if the app does not remember the thread.
func StandingOf(ctx context.Context, app dataflow.Remembering, thread string) (st Standing, found bool, err error) {
	found, err = dataflow.StateOf(ctx, app, agentproto.ThreadID(thread), func(s *State) { st = s.standing(thread) })
	if err != nil || !found {
		return Standing{}, false, err
	}
	return st, true, nil
}

// standing describes the thread. The result shares nothing that the thread may change.
func (s *State) standing(id string) Standing {
	st := Standing{
		ID: id, Messages: s.Messages, Asking: s.Asking, Calls: s.pending(), Usage: s.Usage, Models: maps.Clone(s.Models),
		Subscriptions: len(s.Subscriptions), Deferred: len(s.Deferred), Children: len(s.Children), Views: len(s.Views), Closed: s.Closed,
		Place: s.Move.place().String(),
	}
	if s.Session != nil {
		st.UserID, st.Ancestors, st.Model = s.Session.UserID, slices.Clone(s.Session.Ancestors), s.Session.Model
	}
	st.Pending = len(st.Calls)
	for _, c := range st.Calls {
		if c.Authorizing {
			st.Authorizing++
		}
	}
	return st
}
