package toolserver

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/form"
	"github.com/millrace/millrace/agentproto/internal/intake"
	"github.com/millrace/millrace/agentproto/internal/purpose"
	"github.com/millrace/millrace/agentproto/internal/tools"
)

// Choose asks the user to choose one of choices and returns its index. If the user dismisses the question, the answer is def.
//
// Choose is called from a tool function, with its context or one derived from it, and waits for the answer for
// [Options.ChoiceTimeout]. It returns [ErrNoAnswer] after that time, [ErrBadAnswer] if the answer is not the index of a choice,
// [ErrNotAsked] if the runtime did not accept the question, [ErrClosing] when the server is closed, and the context's cause when
// the call is cancelled. It panics if ctx is not one of a tool function.
//
// With [Options.State] a question survives the process. When the function runs again and asks the same question for the n-th
// time, Choose continues to wait for the answer to the n-th message of the earlier run, or returns the answer that it had. If the
// function asks something else, Choose sends a new question, and an answer to the old one has no effect. A function that does not
// ask in the same order each time must name its questions: see [Ask].
func Choose(ctx context.Context, prompt string, choices []string, def int) (int, error) {
	a, err := ask(ctx, "Choose", Question{Prompt: prompt, Choices: choices, Default: def}, nil)
	return a.Selected, err
}

// A Question is what [Ask] asks the user.
type Question struct {
	// Name distinguishes the questions of one call. Two questions with the same name and the same words are one: the second is
	// not sent and gets the answer of the first. Without names, questions with the same words are distinguished by their order.
	Name string
	// Prompt is the question, and Choices are the possible answers.
	Prompt  string
	Choices []string
	// Default is the index of the choice that is the answer if the user dismisses the question.
	Default int

	// Form is filled in by the user, in place of Choices and Default. A runtime that supports forms shows the form's messages.
	// Any other runtime shows Prompt, or the messages if Prompt is empty, and lets the user decline, or send the defaults if each
	// required field has one.
	Form form.Form
}

// An Answer is a user's answer to a [Question].
type Answer struct {
	// Selected is the index of a choice.
	Selected int
	// Values are the user's answers to a form, by the names of its questions: each is an object that fits its question. A
	// question that the user declined is missing.
	Values map[string]jsontext.Value
}

// Ask asks the user a question, as [Choose] does. If the values do not fit the form, Ask asks the user again and says why, up to
// three times in all, and then returns [ErrBadAnswer]. Ask returns an error for a form that cannot be shown or that asks for a
// secret.
func Ask(ctx context.Context, q Question) (Answer, error) {
	if !q.Form.IsZero() {
		return fill(ctx, q)
	}
	return ask(ctx, "Ask", q, nil)
}

func ask(ctx context.Context, op string, asked Question, formJSON jsontext.Value) (Answer, error) {
	c := callOf(ctx, op)
	switch {
	case len(asked.Choices) == 0:
		return Answer{}, errors.New("there is nothing to choose from")
	case asked.Default < 0 || asked.Default >= len(asked.Choices):
		return Answer{}, errors.New("the default is not one of the choices")
	}
	q, err := c.question(asked, formJSON)
	if err != nil {
		return Answer{}, err
	}
	if i := slices.IndexFunc(c.job.Known, func(k tools.Question) bool { return k.Text == q.Text && k.Nth == q.Nth }); i >= 0 {
		return selection(*c.job.Known[i].Selected, c.job.Known[i].Values) // answered while another instance served the session
	}
	s := c.server
	if known, ok := s.flow.Ports.Asked.Get(q.ID); ok { // before a restart
		q.At = known.At
	} else {
		m, err := c.encode(&agentproto.UserChoice{
			GroupID:     c.inv.GroupID,
			ID:          c.inv.ID,
			CallID:      c.inv.CallID,
			Prompt:      asked.Prompt,
			Choices:     asked.Choices,
			Default:     asked.Default,
			ResponseURL: s.opts.PublicURL + choicePath + q.secret,
			Form:        formJSON,
		})
		if err != nil {
			return Answer{}, err
		}
		m.Lost = q.ID
		if err := c.post(ctx, tools.Post{Message: m, Ask: &q.Question}); err != nil {
			return Answer{}, err
		}
	}
	ctx, stop := context.WithDeadlineCause(ctx, q.At.Add(s.opts.ChoiceTimeout), ErrNoAnswer)
	defer stop()
	a, err := s.answered(ctx, q.ID)
	switch {
	case err != nil:
		return Answer{}, err
	case a.Lost:
		return Answer{}, ErrNotAsked
	}
	return selection(a.Selected, a.Values)
}

// selection returns a user's answer. Values that cannot be read are ErrBadAnswer.
func selection(selected int, values []byte) (Answer, error) {
	if selected < 0 {
		return Answer{}, ErrBadAnswer
	}
	if values == nil {
		return Answer{Selected: selected}, nil
	}
	filled, err := form.Values(values)
	if err != nil {
		return Answer{}, ErrBadAnswer
	}
	return Answer{Selected: selected, Values: filled}, nil
}

// answered waits until the user has answered or the message with the question could not be delivered.
func (s *Server) answered(ctx context.Context, id string) (tools.Answered, error) {
	if a, ok := s.flow.Ports.Answered.Get(id); ok { // an answer that has arrived counts, even while closing
		return a, nil
	}
	ctx, stop := s.whileOpen(ctx)
	defer stop(nil)
	a, err := s.flow.Ports.Answered.Await(ctx, id)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		return a, cause
	}
	return a, err
}

// whileOpen returns a context that ends with ErrClosing when the server begins to close.
func (s *Server) whileOpen(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, stop := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-s.leaving:
			stop(ErrClosing)
		case <-ctx.Done():
		}
	}()
	return ctx, stop
}

// A question is a [tools.Question] with the secret in the address that receives its answer.
type question struct {
	tools.Question
	secret string
}

// question identifies a question of a call: by its words, and by its name or else by how often the same words were asked before
// in this run of the function. A run after a restart computes the same identity, and so waits for the answer to the same message.
func (c *call) question(asked Question, formJSON jsontext.Value) (q question, err error) {
	words := []any{asked.Prompt, asked.Choices, asked.Default}
	if q.Form = formJSON != nil; q.Form {
		words = append(words, string(formJSON))
	}
	if asked.Name != "" {
		words = append(words, asked.Name)
	}
	text, err := json.Marshal(words)
	if err != nil {
		return q, err
	}
	q.Text, q.Choices, q.At = digestOf(string(text)), len(asked.Choices), time.Now().Round(0)
	if asked.Name == "" {
		c.mu.Lock()
		if c.asked == nil {
			c.asked = make(map[string]int)
		}
		q.Nth = c.asked[q.Text]
		c.asked[q.Text]++
		c.mu.Unlock()
	}
	d := c.id.Digest()
	h := hmac.New(sha256.New, c.server.state.Asking)
	fmt.Fprintf(h, "%x %s %s %d %s", d, c.job.Epoch, q.Text, q.Nth, c.server.opts.PublicURL)
	q.secret = base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h.Sum(nil))
	q.ID = digestOf(q.secret)
	return q, nil
}

// serveChoice receives an answer. The secret in the path authenticates the runtime that was asked. A second or late answer is
// accepted and has no effect.
func (s *Server) serveChoice(w http.ResponseWriter, r *http.Request) {
	id := digestOf(r.PathValue("secret"))
	q, ok := s.flow.Ports.Asked.Get(id)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if !intake.IsFor(r.Header.Get(standardwebhooks.HeaderWebhookID), purpose.Answer) {
		http.NotFound(w, r) // a message captured on its way to another address
		return
	}
	// An invalid body settles the question too, since the runtime will not send another answer.
	data, err := s.body(w, r)
	if err != nil {
		if err == errRefused {
			s.settleChoice(q, -1, nil)
		}
		return
	}
	msg, err := agentproto.DecodeChoiceResponse(data, s.opts.Limits)
	if err != nil {
		s.settleChoice(q, -1, nil)
		refuse(w, err)
		return
	}
	if _, answered := s.flow.Ports.Answered.Get(id); answered {
		return
	}
	wrong, selected, values := "", msg.Selected, jsontext.Value(nil)
	switch {
	case q.Form && msg.Values != nil: // invalid values are for the user, who is asked again
		values = msg.Values
		if msg.ID != q.Call.ID || len(values) > form.MaxBytes {
			values, selected = nil, -1
		}
	case msg.ID != q.Call.ID:
		wrong, selected = `member "/id" is not the id of the call`, -1
	case msg.Selected < 0 || msg.Selected >= q.Choices:
		wrong, selected = `member "/selected" is not the index of a choice`, -1
	}
	switch err := s.settleChoice(q, selected, values); {
	case err != nil:
		s.log.Error("answer of a user is not in the state", "error", err)
		w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
		http.Error(w, "the answer cannot be kept", http.StatusServiceUnavailable)
	case wrong != "":
		http.Error(w, wrong, http.StatusBadRequest)
	}
}

// settleChoice closes a question with an answer, which is durable before the function gets it. It does nothing if the question is
// already closed.
func (s *Server) settleChoice(q tools.Asked, selected int, values jsontext.Value) error {
	if _, answered := s.flow.Ports.Answered.Get(q.ID); answered {
		return nil
	}
	_, err := s.flow.Ask(q.Place, tools.In{Answer: &tools.UserAnswer{Call: q.Call, Question: q.ID, Selected: selected, Values: values}})
	return err
}
