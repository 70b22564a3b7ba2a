package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/follow"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/edge"
)

// Sessions over the API: conversations with the models of serve.

// A sessionBody is the request to open a session.
type sessionBody struct {
	ID           string `json:"id"`
	UserID       string `json:"user_id"`
	Images       bool   `json:"images"`
	Instructions string `json:"instructions"`
	Model        string `json:"model,omitempty"` // empty is the default
}

// A sessionOpened lists what an opened session may use.
type sessionOpened struct {
	ThreadID string   `json:"thread_id"`
	Tools    []string `json:"tools"`
	Problems []string `json:"problems,omitempty"`
}

func (a api) openSession(w http.ResponseWriter, r *http.Request) {
	var b sessionBody
	if !body(w, r, &b) {
		return
	}
	from := bearerOf(r)
	user, ok := from.userID(w, r, b.UserID)
	if !ok {
		return
	}
	id := from.thread(b.ID)
	ctx, cancel := context.WithTimeout(r.Context(), acceptWithin)
	defer cancel()
	if _, err := a.rt.OpenSession(ctx, host.SessionRequest{ID: id, UserID: user, Images: b.Images, Instructions: b.Instructions, Model: b.Model}); err != nil {
		failed(w, err)
		return
	}
	tools, problems, err := a.rt.ToolsOf(r.Context(), id)
	if err != nil {
		failed(w, err)
		return
	}
	out := sessionOpened{ThreadID: b.ID, Tools: []string{}}
	for _, t := range tools {
		out.Tools = append(out.Tools, t.Name)
	}
	for _, p := range problems {
		out.Problems = append(out.Problems, p.Error())
	}
	answer(w, http.StatusCreated, out)
}

// sessionOf returns the request with which a run of AG-UI opens the thread that it names.
func sessionOf(r *http.Request, name string) (host.SessionRequest, error) {
	open := host.SessionRequest{ID: name}
	if b := bearerOf(r); b != nil {
		open.ID, open.UserID = b.thread(name), b.user
	}
	return open, nil
}

func (a api) say(w http.ResponseWriter, r *http.Request) {
	var b struct {
		Text string `json:"text"`
		Key  string `json:"key"`
	}
	if !body(w, r, &b) {
		return
	}
	if b.Text == "" {
		answer(w, http.StatusBadRequest, problem{`"text" is what the user says: it is required`})
		return
	}
	var err error
	if b.Key == "" {
		err = a.thread(r).Say(r.Context(), b.Text)
	} else {
		_, err = a.thread(r).SayOnce(r.Context(), b.Key, b.Text)
	}
	if err != nil {
		failed(w, err)
		return
	}
	w.WriteHeader(http.StatusAccepted)
}

// readWithin is how long it may take to read the existing messages of a thread. A process that does not run the thread reads them
// one by one, in a millisecond or two each.
const readWithin = 20 * time.Second

// messages answers with the history from a given number on, as soon as there is a message or
// the wait is over.
func (a api) messages(w http.ResponseWriter, r *http.Request) {
	from := 0
	if text := r.URL.Query().Get("from"); text != "" {
		var err error
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			answer(w, http.StatusBadRequest, problem{fmt.Sprintf("from is %q: it has to be the number of a message", text)})
			return
		}
	}
	wait, ok := waitOf(w, r)
	if !ok {
		return
	}
	status, err := a.thread(r).Status(r.Context())
	if err == nil && status.Session == nil {
		err = conversation.ErrUnknownThread
	}
	if err != nil {
		failed(w, err)
		return
	}
	release, ok := a.hold(w, r, wait)
	if !ok {
		return
	}
	defer release()
	limit := wait
	if from < status.Messages {
		limit = max(wait, readWithin)
	}
	ctx, cancel := context.WithTimeout(r.Context(), limit)
	defer cancel()
	all, next := []follow.Message{}, from
	for m, err := range a.thread(r).Follow(ctx, from) {
		if err != nil && (ctx.Err() == nil || next < status.Messages) {
			failed(w, err) // an answer without messages that exist would look complete
			return
		}
		if err != nil {
			break // the wait is over
		}
		all, next = append(all, follow.MessageOf(&m)), m.N+1
		if next >= status.Messages {
			break // what arrived in the meantime comes with the next request
		}
	}
	answer(w, http.StatusOK, all)
}

func (a api) interrupt(w http.ResponseWriter, r *http.Request) {
	a.done(w, a.thread(r).Interrupt(r.Context()))
}

// asks answers with the open prompts for the user of a thread.
func (a api) asks(w http.ResponseWriter, r *http.Request) {
	answer(w, http.StatusOK, a.user.asked(r.PathValue("thread")))
}

// answerPrompt takes the user's answer to a choice.
func (a api) answerPrompt(w http.ResponseWriter, r *http.Request) {
	var b struct {
		ID       string         `json:"id"`
		Selected *int           `json:"selected"`
		Values   jsontext.Value `json:"values,omitzero"`
	}
	if !body(w, r, &b) {
		return
	}
	selected, ok := selectedIn(w, b.Selected)
	if !ok {
		return
	}
	values, ok := valuesIn(w, b.Selected, b.Values)
	if !ok {
		return
	}
	key := agentproto.CallKey{GroupID: r.PathValue("thread"), ID: b.ID}
	choice := a.user.choice(key)
	if choice == nil {
		if err := a.rt.AnswerPrompt(r.Context(), key, 0, selected); errors.Is(err, host.ErrOtherProcess) {
			unavailable(w, err)
			return
		}
		answer(w, http.StatusNotFound, problem{"the user is not asked to choose anything for this call"})
		return
	}
	if values != nil {
		a.answered(w, a.rt.AnswerForm(r.Context(), key, 0, values))
		return
	}
	a.answered(w, a.rt.Answer(r.Context(), key, choice.ResponseURL, selected))
}

// maxMove limits how long the answer to a migration may take. A tool server may take ten
// minutes to hand over its state, and several do so at the same time.
const maxMove = 15 * time.Minute

// migrate moves a session to another runtime. It answers when the session has moved, or has
// stayed.
func (a api) migrate(w http.ResponseWriter, r *http.Request) {
	var b migrateBody
	if !body(w, r, &b) {
		return
	}
	release, ok := edge.Hold(w, r, maxMove)
	if !ok {
		return
	}
	defer release()
	err := a.rt.Migrate(r.Context(), r.PathValue("session"), b.To)
	switch {
	case errors.Is(err, host.ErrNotMoved):
		answer(w, http.StatusBadGateway, problem{err.Error()})
	case errors.Is(err, host.ErrNoMigrationKey):
		answer(w, http.StatusConflict, problem{"this runtime was started without --migration-key"})
	default:
		a.done(w, err)
	}
}

// A migrateBody is the request to move a session.
type migrateBody struct {
	To string `json:"to"` // the public URL of the other runtime
}

func (a api) thread(r *http.Request) *host.Thread { return a.rt.Thread(r.PathValue("thread")) }

// body decodes the body of a request. If the body is invalid, it answers the request and
// reports false.
func body(w http.ResponseWriter, r *http.Request, into any) bool {
	text, err := io.ReadAll(r.Body) // the server limits its size
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		edge.Refuse(w, r, http.StatusRequestEntityTooLarge, "the body is too large")
		return false
	}
	if err != nil {
		edge.Refuse(w, r, http.StatusBadRequest, "the body could not be read")
		return false
	}
	if err := json.Unmarshal(text, into, json.RejectUnknownMembers(true)); err != nil {
		answer(w, http.StatusBadRequest, problem{"not what this takes: " + err.Error()})
		return false
	}
	return true
}

// done answers 204, or with the error.
func (a api) done(w http.ResponseWriter, err error) {
	if err != nil {
		failed(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// failed answers with the status for an error.
func failed(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, conversation.ErrUnknownThread):
		answer(w, http.StatusNotFound, problem{err.Error()})
	case errors.Is(err, host.ErrMoving): // the move may fail
		unavailable(w, err)
	case errors.Is(err, conversation.ErrClosedThread), errors.Is(err, conversation.ErrMoved), errors.Is(err, host.ErrElsewhere):
		answer(w, http.StatusGone, problem{err.Error()})
	case errors.Is(err, conversation.ErrTooManyChildren):
		answer(w, http.StatusConflict, problem{err.Error()})
	case errors.Is(err, host.ErrNoModel):
		answer(w, http.StatusConflict, problem{"this runtime was started without --model"})
	case errors.Is(err, host.ErrBadID), errors.Is(err, host.ErrUnknownModel), errors.Is(err, conversation.ErrBadName), errors.Is(err, host.ErrBadDestination):
		answer(w, http.StatusBadRequest, problem{err.Error()})
	default:
		unavailable(w, err)
	}
}
