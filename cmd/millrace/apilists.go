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

// The default and the maximum number of entries of a page.
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

// A threadBody is a thread in a list.
type threadBody struct {
	ID        string                        `json:"id"`
	UserID    string                        `json:"user_id,omitempty"`
	Ancestors []string                      `json:"ancestors,omitempty"`
	Model     string                        `json:"model,omitempty"` // named by the session
	State     string                        `json:"state"`           // in a few words
	Messages  int                           `json:"messages"`
	Pending   int                           `json:"pending"`
	Usage     conversation.Usage            `json:"usage,omitzero"`
	Models    map[string]conversation.Usage `json:"models,omitempty"` // usage by model
	Closed    bool                          `json:"closed,omitzero"`
}

// threads answers with a page of threads. The parameters user and state (open or closed) select some of them. An owner sees only
// its own threads.
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

// A callBody is a call in a list.
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

// calls answers with a page of calls. The parameters thread and state select some of them. An owner sees only the calls in its
// own threads.
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

// page answers with a page of what a runtime remembers: an object with the entries under the given name. If there are more
// entries, "next" is the parameter after of the next request.
func page[S, T any](w http.ResponseWriter, r *http.Request, name string, more []string, all agentinspect.Each[S], wanted func(S) (T, bool)) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil { // r.URL.Query leaves out what it cannot read
		answer(w, http.StatusBadRequest, problem{"the parameters cannot be read: " + err.Error()})
		return
	}
	after, limit, err := pageParameters(q, more)
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

// pageParameters reads where a page begins and how many entries it may have.
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
