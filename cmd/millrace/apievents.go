package main

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/edge"
)

// Subscriptions of calls without a conversation, over the API.

func (a api) handleEvents(mux routes) {
	mux.HandleFunc("GET /threads/{thread}/subscriptions", a.subscriptions)
	mux.HandleFunc("GET /calls/{thread}/{id}/events", a.callEvents)
	mux.HandleFunc("DELETE /calls/{thread}/{id}/events", func(w http.ResponseWriter, r *http.Request) {
		a.done(w, a.rt.EndSubscription(r.Context(), keyIn(r)))
	})
}

// An eventsBody is what is kept of a subscription. Events holds the last events; the last of them has the number Last.
type eventsBody struct {
	ID        string   `json:"id"` // of the call
	Operation string   `json:"operation"`
	Last      int      `json:"last"`
	Events    []string `json:"events,omitempty"`
	Ended     bool     `json:"ended,omitzero"`
}

func bodyOf(e agentproto.Events) eventsBody {
	return eventsBody{ID: e.Key.ID, Operation: e.Operation, Last: e.Last, Events: e.Texts, Ended: e.Ended}
}

// events is the reverse of bodyOf.
func (b eventsBody) events(thread string) agentproto.Events {
	return agentproto.Events{Key: agentproto.CallKey{GroupID: thread, ID: b.ID}, Operation: b.Operation, Last: b.Last, Texts: b.Events, Ended: b.Ended}
}

// subscriptions answers with the open subscriptions of a thread, without their events.
func (a api) subscriptions(w http.ResponseWriter, r *http.Request) {
	open, err := a.rt.Subscriptions(r.Context(), r.PathValue("thread"))
	if err != nil {
		eventsFailed(w, err)
		return
	}
	all := []eventsBody{}
	for _, e := range open {
		all = append(all, bodyOf(e))
	}
	answer(w, http.StatusOK, all)
}

// callEvents answers with the events of a subscription. With the parameters after and wait it answers when there is an event with
// a number greater than after; otherwise at once.
func (a api) callEvents(w http.ResponseWriter, r *http.Request) {
	wait, ok := waitOf(w, r)
	if !ok {
		return
	}
	after := -1
	if text := r.URL.Query().Get("after"); text != "" {
		var err error
		if after, err = strconv.Atoi(text); err != nil || after < 0 {
			answer(w, http.StatusBadRequest, problem{"after is not the number of an event"})
			return
		}
	}
	e, err := a.rt.Events(r.Context(), keyIn(r), -1)
	if err == nil && e.Last <= after && !e.Ended && wait > 0 {
		release, ok := a.hold(w, r, wait)
		if !ok {
			return
		}
		defer release()
		waiting, cancel := context.WithTimeout(r.Context(), wait)
		defer cancel()
		more, waited := a.rt.Events(waiting, keyIn(r), after)
		if waited == nil {
			e = more
		} else if waiting.Err() == nil {
			err = waited
		}
	}
	if err != nil {
		eventsFailed(w, err)
		return
	}
	answer(w, http.StatusOK, bodyOf(e))
}

func eventsFailed(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, host.ErrUnknownCall):
		answer(w, http.StatusNotFound, problem{err.Error()})
	case errors.Is(err, host.ErrElsewhere):
		answer(w, http.StatusGone, problem{err.Error()})
	case errors.Is(err, host.ErrBadID):
		answer(w, http.StatusBadRequest, problem{err.Error()})
	default:
		unavailable(w, err)
	}
}

// Subscriptions returns the open subscriptions of a thread.
func (c apiCalls) Subscriptions(ctx context.Context, thread string) ([]agentproto.Events, error) {
	var all []eventsBody
	if err := c.do(ctx, http.MethodGet, "/threads/"+edge.Segment(thread)+"/subscriptions", nil, &all); err != nil {
		return nil, err
	}
	var open []agentproto.Events
	for _, b := range all {
		open = append(open, b.events(thread))
	}
	return open, nil
}

// Events returns the events of a subscription as soon as there is one whose number is greater than after, or the subscription has
// ended.
func (c apiCalls) Events(ctx context.Context, key agentproto.CallKey, after int) (agentproto.Events, error) {
	query := "/events"
	if after >= 0 {
		query += "?wait=" + eachWait.String() + "&after=" + strconv.Itoa(after)
	}
	for {
		var b eventsBody
		err := c.do(ctx, http.MethodGet, callPath(key)+query, nil, &b)
		if err != nil || b.Last > after || b.Ended {
			return b.events(key.GroupID), err
		}
	}
}

// EndSubscription ends the subscription that a call opened.
func (c apiCalls) EndSubscription(ctx context.Context, key agentproto.CallKey) error {
	return c.do(ctx, http.MethodDelete, callPath(key)+"/events", nil, nil)
}
