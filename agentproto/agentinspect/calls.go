package agentinspect

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host"
)

// The number of entries on a page, and how long a request searches for them.
const (
	pageLength = 50
	patience   = time.Second
)

// A call is the state of a call, in JSON.
type call struct {
	Thread     string    `json:"thread"`
	ID         string    `json:"id"`
	State      string    `json:"state"`
	Cause      string    `json:"cause,omitempty"` // which input resolved it
	Operation  string    `json:"operation,omitempty"`
	Toolset    string    `json:"toolset,omitempty"`
	UserID     string    `json:"user_id,omitempty"`
	Ancestors  []string  `json:"ancestors,omitempty"`
	Made       time.Time `json:"made,omitzero"`
	Since      time.Time `json:"since,omitzero"` // when the authorization or choice that it waits for began
	Subscribed bool      `json:"subscribed,omitempty"`
	Place      string    `json:"place"`
}

func callOf(st host.CallStanding) call {
	c := call{
		Thread: st.Key.GroupID, ID: st.Key.ID, State: st.State.String(), Operation: st.Operation, Toolset: st.Toolset, UserID: st.UserID,
		Ancestors: st.Ancestors, Made: st.Made.UTC(), Since: st.Since.UTC(), Subscribed: st.Subscribed, Place: st.Place,
	}
	if st.Cause != 0 {
		c.Cause = st.Cause.String()
	}
	return c
}

// calls shows the calls that this process remembers.
func (v *view) calls(q request) error {
	values := q.r.URL.Query()
	wanted := CallFilter(values.Get("state"))
	if wanted == nil {
		return problem{http.StatusBadRequest, `"state" is open, pending, oauth, choice, completed or subscribed`}
	}
	thread := values.Get("thread")
	shown := struct {
		At     time.Time `json:"at"`
		Calls  []call    `json:"calls"`
		Next   string    `json:"next,omitempty"` // the parameter "from" of the next page
		State  string    `json:"-"`
		Thread string    `json:"-"`
	}{At: time.Now().UTC(), Calls: []call{}, State: values.Get("state"), Thread: thread}
	var err error
	shown.Calls, shown.Next, err = Find(q.r.Context(), values.Get("from"), pageLength, v.rt.Calls, func(st host.CallStanding) (call, bool) {
		return callOf(st), wanted(st) && (thread == "" || st.Key.GroupID == thread)
	})
	if err != nil {
		return err
	}
	return q.show("calls", "calls", shown)
}

// A happening is something that happened to a call, in JSON.
type happening struct {
	At   time.Time `json:"at"`
	What string    `json:"what"`
	Why  string    `json:"why,omitempty"`
}

// call shows a call and what happened to it.
func (v *view) call(q request) error {
	key := q.keyOf()
	ctx, cancel := context.WithTimeout(q.r.Context(), patience)
	defer cancel()
	st, found, err := v.rt.CallStanding(ctx, key)
	if err != nil {
		return err
	}
	shown := struct {
		At     time.Time   `json:"at"`
		Call   *call       `json:"call,omitempty"` // nil if this process does not remember it
		Events []happening `json:"events"`         // since this process started
		Lost   int         `json:"lost,omitempty"` // how many events after the first are missing
		Result *result     `json:"result,omitempty"`
		Key    string      `json:"-"` // in the format of the page of keys
		Thread string      `json:"-"`
		ID     string      `json:"-"`
	}{At: time.Now().UTC(), Events: []happening{}, Thread: key.GroupID, ID: key.ID}
	if found {
		c := callOf(st)
		shown.Call = &c
	}
	events, lost := v.rt.History(key)
	shown.Lost = lost
	for _, e := range events {
		shown.Events = append(shown.Events, happening{e.At.UTC(), e.What, e.Why})
	}
	if !found && len(events) == 0 {
		return problem{http.StatusNotFound, fmt.Sprintf("this process remembers no call %q in thread %q", key.ID, key.GroupID)}
	}
	if found && st.State == agentproto.Completed {
		if r, ok := v.rt.Resolution(key); ok {
			shown.Result = &result{!r.Result.IsError(), cut(r.Result.String())}
		}
	}
	text, err := json.Marshal(key)
	if err != nil {
		return err
	}
	shown.Key = string(text)
	return q.show("call "+key.ID, "call", shown)
}

// A result is the outcome of a call.
type result struct {
	OK   bool   `json:"ok"`
	Text string `json:"text"`
}

// longestText is how many bytes of a text are shown.
const longestText = 4 << 10

// cut shortens a foreign text.
func cut(s string) string {
	if len(s) <= longestText {
		return s
	}
	return fmt.Sprintf("%s… (%d bytes)", strings.ToValidUTF8(s[:longestText], ""), len(s))
}
