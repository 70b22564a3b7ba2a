package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/weburl"
)

// What 'millrace mcp' needs of a runtime over the API: the tools of a thread, the state of a call, and answers by the number of a
// prompt.

// handleCalls adds the requests about single calls to the API.
func (a api) handleCalls(mux routes) {
	mux.HandleFunc("GET /threads/{thread}/tools", a.tools)
	mux.HandleFunc("GET /calls/{thread}/{id}/state", a.state)
	mux.HandleFunc("POST /calls/{thread}/{id}/answers", a.answerCall)
}

// A toolBody is a tool in the format of the API.
type toolBody struct {
	Name        string                 `json:"name"`
	Description string                 `json:"description"`
	InputSchema jsontext.Value         `json:"input_schema"`
	Annotations agentproto.Annotations `json:"annotations,omitzero"`
	Toolset     string                 `json:"toolset"` // base URL of the tool server
}

func (a api) tools(w http.ResponseWriter, r *http.Request) {
	tools, _, err := a.rt.ToolsOf(r.Context(), r.PathValue("thread"))
	switch {
	case errors.Is(err, host.ErrBadID):
		answer(w, http.StatusBadRequest, problem{err.Error()})
		return
	case err != nil:
		unavailable(w, err)
		return
	}
	all := []toolBody{}
	for _, t := range tools {
		all = append(all, toolBody{Name: t.Name, Description: t.Description, InputSchema: t.InputSchema, Annotations: t.Annotations, Toolset: t.Server})
	}
	answer(w, http.StatusOK, all)
}

// A stateBody is the state of a call in the format of the API.
type stateBody struct {
	GroupID   string         `json:"group_id"`
	ID        string         `json:"id"`
	Operation string         `json:"operation,omitempty"`
	Toolset   string         `json:"toolset,omitempty"`
	State     string         `json:"state"` // such as "choice pending"
	Version   uint64         `json:"version"`
	Created   time.Time      `json:"created,omitzero"`
	Changed   time.Time      `json:"changed,omitzero"`
	Prompt    *callPrompt    `json:"prompt,omitempty"`
	Progress  *callProgress  `json:"progress,omitempty"` // the last report of the tool
	Result    *resolvedState `json:"result,omitempty"`
}

// A callProgress is the last progress that a tool has reported for a call.
type callProgress struct {
	Number uint64 `json:"number"` // a new one for each report
	agentproto.Progress
}

// A callPrompt is a question of a call to its user.
type callPrompt struct {
	Number  int       `json:"number"` // for an answer
	Since   time.Time `json:"since"`
	AuthURL string    `json:"auth_url,omitempty"`
	Host    string    `json:"host,omitempty"` // where AuthURL leads
	Prompt  string    `json:"prompt,omitempty"`
	Choices []string  `json:"choices,omitempty"`
	Default int       `json:"default,omitempty"`
	// Form holds the questions that are not answered yet, if the prompt can be answered with values: see package form.
	Form jsontext.Value `json:"form,omitzero"`
}

// A resolvedState is a result for programs; apiResult is for people.
type resolvedState struct {
	Cause        string               `json:"cause"`
	Subscription bool                 `json:"subscription,omitzero"`
	Text         *string              `json:"text,omitempty"`
	Content      []agentproto.Content `json:"content,omitempty"`
}

// state answers with the state of a call. With the parameters after and wait it answers when the version of the call is greater
// than after; with the parameter progress also when the number of the call's progress is another one. When the wait is over it
// answers with the current state. Without these parameters it answers at once.
func (a api) state(w http.ResponseWriter, r *http.Request) {
	wait, ok := waitOf(w, r)
	if !ok {
		return
	}
	key := keyIn(r)
	d, err := a.rt.Describe(r.Context(), key)
	if text := r.URL.Query().Get("after"); err == nil && text != "" && wait > 0 {
		after, wrong := strconv.ParseUint(text, 10, 64)
		if wrong != nil {
			answer(w, http.StatusBadRequest, problem{"after is not a version"})
			return
		}
		changed := func(ctx context.Context) (host.Description, error) { return a.rt.Changed(ctx, key, after) }
		if text := r.URL.Query().Get("progress"); text != "" {
			said, wrong := strconv.ParseUint(text, 10, 64)
			if wrong != nil {
				answer(w, http.StatusBadRequest, problem{"progress is not the number of one"})
				return
			}
			changed = func(ctx context.Context) (host.Description, error) { return a.rt.Progressed(ctx, key, after, said) }
		}
		if d.Version <= after {
			release, ok := a.hold(w, r, wait)
			if !ok {
				return
			}
			defer release()
			waiting, cancel := context.WithTimeout(r.Context(), wait)
			defer cancel()
			now, waited := changed(waiting)
			if waited == nil {
				d = now
			} else if waiting.Err() == nil {
				err = waited
			}
		}
	}
	switch {
	case errors.Is(err, host.ErrUnknownCall):
		answer(w, http.StatusNotFound, problem{fmt.Sprintf("there is no call %q in thread %q", key.ID, key.GroupID)})
	case errors.Is(err, host.ErrElsewhere):
		answer(w, http.StatusGone, problem{err.Error()})
	case err != nil:
		unavailable(w, err)
	default:
		s := stateOf(d)
		s.GroupID = bearerOf(r).named(s.GroupID)
		answer(w, http.StatusOK, s)
	}
}

func stateOf(d host.Description) stateBody {
	s := stateBody{
		GroupID: d.Key.GroupID, ID: d.Key.ID, Operation: d.Operation, Toolset: d.Toolset, State: d.State.String(),
		Version: d.Version, Created: d.Created, Changed: d.Changed,
	}
	if p := d.Prompt; p != nil {
		s.Prompt = &callPrompt{Number: p.Number, Since: p.Since}
		if c := p.Choice; c != nil {
			s.Prompt.Prompt, s.Prompt.Choices, s.Prompt.Default = c.Prompt, c.Choices, c.Default
			if !p.Form.IsZero() {
				s.Prompt.Form, _ = p.Form.Encode() // part of a form that was encoded before
			}
		} else {
			s.Prompt.AuthURL, s.Prompt.Host, _ = weburl.Show(p.OAuth.AuthURL)
		}
	}
	if p := d.Progress; p != nil {
		s.Progress = &callProgress{p.Number, p.Progress}
	}
	if r := d.Resolution; r != nil {
		s.Result = &resolvedState{Cause: r.Cause.String(), Subscription: r.Result.Subscription, Text: r.Result.Text, Content: r.Result.Content}
	}
	return s
}

// A callAnswer is an answer to a prompt of a call. Values are the answers to questions of its form. If both Selected and Values
// are null, it dismisses the prompt.
type callAnswer struct {
	Prompt   int            `json:"prompt"`
	Selected *int           `json:"selected"`
	Values   jsontext.Value `json:"values,omitzero"`
}

// answerCall answers 204 when the answer is kept, even if the prompt is not open.
func (a api) answerCall(w http.ResponseWriter, r *http.Request) {
	var given callAnswer
	if !body(w, r, &given) {
		return
	}
	selected, ok := selectedIn(w, given.Selected)
	if !ok {
		return
	}
	values, ok := valuesIn(w, given.Selected, given.Values)
	if !ok {
		return
	}
	var err error
	if values != nil {
		err = a.rt.AnswerForm(r.Context(), keyIn(r), given.Prompt, values)
	} else {
		err = a.rt.AnswerPrompt(r.Context(), keyIn(r), given.Prompt, selected)
	}
	a.answered(w, err)
}

// answered answers a request with the outcome of an answer to a prompt.
func (a api) answered(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, host.ErrUnknownCall):
		answer(w, http.StatusNotFound, problem{err.Error()})
	case errors.Is(err, host.ErrBadChoice):
		answer(w, http.StatusBadRequest, problem{err.Error()})
	default:
		a.done(w, err)
	}
}

// selectedIn returns the selection of an answer; nil means [host.Dismiss]. That is a negative number, so a negative selection is
// invalid. Then selectedIn answers the request and reports false.
func selectedIn(w http.ResponseWriter, selected *int) (int, bool) {
	switch {
	case selected == nil:
		return host.Dismiss, true
	case *selected < 0:
		answer(w, http.StatusBadRequest, problem{"selected must not be negative"})
		return 0, false
	}
	return *selected, true
}

// valuesIn decodes the values of an answer; nil means none. If they are invalid, it answers the request and reports false.
func valuesIn(w http.ResponseWriter, selected *int, values jsontext.Value) (map[string]jsontext.Value, bool) {
	if values == nil || values.Kind() == 'n' {
		return nil, true
	}
	if selected != nil {
		answer(w, http.StatusBadRequest, problem{"an answer has selected or values"})
		return nil, false
	}
	all, err := form.Values(values)
	if err != nil {
		answer(w, http.StatusBadRequest, problem{err.Error()})
		return nil, false
	}
	return all, true
}
