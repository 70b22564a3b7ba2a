package conversation

import (
	"context"
	"maps"
	"slices"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/dataflow"
)

// A Standing is where a thread stands, for people who look at a program that runs: its [Status] in few words.
type Standing struct {
	ID        string
	UserID    string
	Ancestors []string // from the root to the parent; none for a root thread

	Messages      int       // how many there are in the history, those that are no longer kept included
	Asking        bool      // the model is being asked
	Pending       int       // calls without a result
	Calls         []Pending // these calls
	Authorizing   int       // of these, that wait for the user to authorize their tools
	Subscriptions int
	Deferred      int // what waits until calls are settled
	Children      int
	Views         int
	Usage         Usage            // of all rounds whose replies are in the history
	Models        map[string]Usage // the same by the name of the model
	Model         string           // that the session names; empty is the default
	Closed        bool
	Place         string // "here", or how far it is on its way to another host
}

// EachThread calls do with threads that an app remembers whose flow has a [Program]: a page of so many at most. It is as
// [dataflow.EachState] in everything else.
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

// StandingOf returns where a thread stands, and reports false if the app does not remember it.
func StandingOf(ctx context.Context, app dataflow.Remembering, thread string) (st Standing, found bool, err error) {
	found, err = dataflow.StateOf(ctx, app, agentproto.ThreadID(thread), func(s *State) { st = s.standing(thread) })
	if err != nil || !found {
		return Standing{}, false, err
	}
	return st, true, nil
}

// standing returns where the thread stands. It keeps nothing that the thread may change.
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
