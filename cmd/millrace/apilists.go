package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/agentinspect"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
)

// Lists over the API: sessions, threads and calls, page by page.

// How many entries a page has.
const (
	pageEntries = 50
	mostPage    = 500
)

func (a api) handleLists(mux routes) {
	mux.HandleFunc("GET /sessions", func(w http.ResponseWriter, r *http.Request) {
		a.threads(w, r, "sessions", func(st conversation.Standing) bool { return len(st.Ancestors) == 0 })
	})
	mux.HandleFunc("GET /threads", func(w http.ResponseWriter, r *http.Request) {
		a.threads(w, r, "threads", func(conversation.Standing) bool { return true })
	})
	mux.HandleFunc("GET /calls", a.calls)
}

// A threadBody is a thread as a list has it.
type threadBody struct {
	ID        string                        `json:"id"`
	UserID    string                        `json:"user_id,omitempty"`
	Ancestors []string                      `json:"ancestors,omitempty"`
	Model     string                        `json:"model,omitempty"` // that the session names
	State     string                        `json:"state"`           // in a few words
	Messages  int                           `json:"messages"`
	Pending   int                           `json:"pending"`
	Usage     conversation.Usage            `json:"usage,omitzero"`
	Models    map[string]conversation.Usage `json:"models,omitempty"` // the usage by the model
	Closed    bool                          `json:"closed,omitzero"`
}

// threads answers with a page of threads, those of a user or in a state, open or closed, if the request says so, and of an owner's own
// ones to the owner.
func (a api) threads(w http.ResponseWriter, r *http.Request, name string, wanted func(conversation.Standing) bool) {
	from := bearerOf(r)
	user, state := r.URL.Query().Get("user"), r.URL.Query().Get("state")
	if state != "" && state != "open" && state != "closed" {
		answer(w, http.StatusBadRequest, problem{fmt.Sprintf("state is %q: it has to be open or closed", state)})
		return
	}
	page[conversation.Standing, threadBody](w, r, name, []string{"user", "state"}, a.rt.Threads, func(st conversation.Standing) (threadBody, bool) {
		return threadBody{
			ID: from.named(st.ID), UserID: st.UserID, Ancestors: from.allNamed(st.Ancestors), Model: st.Model, State: agentinspect.ThreadState(st), Messages: st.Messages,
			Pending: st.Pending, Usage: st.Usage, Models: st.Models, Closed: st.Closed,
		}, from.owns(st.ID) && wanted(st) && (user == "" || user == st.UserID) && (state == "" || st.Closed == (state == "closed"))
	})
}

// A callBody is a call as a list has it.
type callBody struct {
	GroupID   string    `json:"group_id"`
	ID        string    `json:"id"`
	Operation string    `json:"operation,omitempty"`
	Toolset   string    `json:"toolset,omitempty"`
	UserID    string    `json:"user_id,omitempty"`
	State     string    `json:"state"`
	Cause     string    `json:"cause,omitempty"` // which input resolved it
	Made      time.Time `json:"made,omitzero"`
}

// calls answers with a page of calls, those of a thread or in a state if the request says so, and those in an owner's own threads to
// the owner.
func (a api) calls(w http.ResponseWriter, r *http.Request) {
	from := bearerOf(r)
	thread, state := from.thread(r.URL.Query().Get("thread")), r.URL.Query().Get("state")
	is := agentinspect.CallFilter(state)
	if is == nil {
		answer(w, http.StatusBadRequest, problem{fmt.Sprintf("state is %q: it has to be one of %q", state, agentinspect.CallFilters())})
		return
	}
	page[host.CallStanding, callBody](w, r, "calls", []string{"thread", "state"}, a.rt.Calls, func(st host.CallStanding) (callBody, bool) {
		c := callBody{
			GroupID: from.named(st.Key.GroupID), ID: st.Key.ID, Operation: st.Operation, Toolset: st.Toolset, UserID: st.UserID,
			State: st.State.String(), Made: st.Made.UTC(),
		}
		if st.State == agentproto.Completed && st.Cause != 0 {
			c.Cause = st.Cause.String()
		}
		return c, from.owns(st.Key.GroupID) && is(st) && (thread == "" || thread == st.Key.GroupID)
	})
}

// page answers with a page of what a runtime remembers: an object with the entries under a name and, if there are more, "next", which
// the parameter after of the next request is.
func page[S, T any](w http.ResponseWriter, r *http.Request, name string, more []string, all agentinspect.Each[S], wanted func(S) (T, bool)) {
	after, limit, err := pageParameters(r.URL.Query(), more)
	if err != nil {
		answer(w, http.StatusBadRequest, problem{err.Error()})
		return
	}
	entries, next, err := agentinspect.Find(r.Context(), after, limit, all, wanted)
	switch {
	case errors.Is(err, agentinspect.ErrBadPlace):
		answer(w, http.StatusBadRequest, problem{"after is what a page before has given as its next"})
		return
	case errors.Is(err, context.DeadlineExceeded):
		unavailable(w, err)
		return
	case err != nil:
		failed(w, err)
		return
	}
	body := map[string]any{name: entries}
	if next != "" {
		body["next"] = next
	}
	answer(w, http.StatusOK, body)
}

// pageParameters reads where a page begins and how many entries it has at most.
func pageParameters(q url.Values, more []string) (after string, limit int, err error) {
	for name, values := range q {
		switch {
		case name != "after" && name != "limit" && !slices.Contains(more, name):
			return "", 0, fmt.Errorf("%q is no parameter of this list", name)
		case len(values) > 1:
			return "", 0, fmt.Errorf("%s is there %d times", name, len(values))
		}
	}
	limit = pageEntries
	if text := q.Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > mostPage {
			return "", 0, fmt.Errorf("limit is %q: it has to be a number from 1 to %d", text, mostPage)
		}
	}
	return q.Get("after"), limit, nil
}
