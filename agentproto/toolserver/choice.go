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

// Choose asks the user to choose one of choices and returns its index. Def is the
// index that stands for a user who dismisses the question.
//
// Choose is called from a tool function, with its context or one derived from it,
// and waits for the answer for [Options.ChoiceTimeout]. It returns [ErrNoAnswer]
// after that, [ErrBadAnswer] if what came is not the index of a choice,
// [ErrNotAsked] if the runtime did not take the question, [ErrClosing] when the
// server is closed, and the context's cause when the call is cancelled. It panics
// if ctx is not one of a tool function.
//
// With [Options.State] a question outlives the process. When the function runs again
// and asks the same, the n-th time for the n-th time, Choose goes on waiting for the
// answer to the first message, or returns the answer that it had. A function that
// asks something else then sends a new question; an answer to the old one has no
// effect. One that does not ask in the same order each time gives names to its questions: see [Ask].
func Choose(ctx context.Context, prompt string, choices []string, def int) (int, error) {
	a, err := ask(ctx, "Choose", Question{Prompt: prompt, Choices: choices, Default: def}, nil)
	return a.Selected, err
}

// A Question is what [Ask] asks the user.
type Question struct {
	// Name tells questions of one call apart. Two with the same name and the same words are one: the second is not sent, and
	// has the answer of the first. Without a name, questions with the same words are told apart by their order.
	Name string
	// Prompt is what is asked, and Choices are what can be answered.
	Prompt  string
	Choices []string
	// Default is the index of the choice that stands for a user who dismisses the question.
	Default int

	// Form is what the user fills in, in place of Choices and Default. A runtime that knows forms shows its messages. One that does not shows
	// Prompt, which is the messages if it is empty, and has the user decline or send the defaults, if each required field has one.
	Form form.Form
}

// An Answer is what a user has answered.
type Answer struct {
	// Selected is the index of a choice.
	Selected int
	// Values are what the user has filled in of a form, by the names of its questions: an object that fits the question. One that the user has
	// declined is missing.
	Values map[string]jsontext.Value
}

// Ask asks the user a question, as [Choose] does. Values that do not fit a form are not returned: the user is asked again and told
// why, up to three times in all, and then the error is [ErrBadAnswer]. Ask returns an error for a form that cannot be shown, or asks for a secret.
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
		return selection(*c.job.Known[i].Selected, c.job.Known[i].Values) // answered at another instance
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

// selection returns the answer of a user. Values that cannot be read are no answer.
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

// answered waits until a user has answered, or the message that asks was not delivered.
func (s *Server) answered(ctx context.Context, id string) (tools.Answered, error) {
	if a, ok := s.flow.Ports.Answered.Get(id); ok { // an answer that is there counts
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

// A question is a [tools.Question] with the secret in the address for its answer.
type question struct {
	tools.Question
	secret string
}

// question names a question of a call: by what is asked, and its name or how often the same
// was asked before in this run of the function. So does a run after a restart, which waits for
// the answer to the same message then.
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

// serveChoice receives an answer. Whoever knows the path is the runtime that was
// asked. A second answer, or a late one, is accepted and has no effect.
func (s *Server) serveChoice(w http.ResponseWriter, r *http.Request) {
	id := digestOf(r.PathValue("secret"))
	q, ok := s.flow.Ports.Asked.Get(id)
	if !ok {
		http.NotFound(w, r)
		return
	}
	if !intake.IsFor(r.Header.Get(standardwebhooks.HeaderWebhookID), purpose.Answer) {
		http.NotFound(w, r) // a message that somebody has captured elsewhere
		return
	}
	// A body that is no answer at all is one too: the runtime will not send another.
	data, ok := s.body(w, r)
	if !ok {
		s.settleChoice(q, -1, nil)
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
	case q.Form && msg.Values != nil: // what is wrong with them is for the user, who is asked again
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

// settleChoice closes a question with an answer, which is durable before the function gets it.
// It does nothing if the question is closed.
func (s *Server) settleChoice(q tools.Asked, selected int, values jsontext.Value) error {
	if _, answered := s.flow.Ports.Answered.Get(q.ID); answered {
		return nil
	}
	_, err := s.flow.Ask(q.Place, tools.In{Answer: &tools.UserAnswer{Call: q.Call, Question: q.ID, Selected: selected, Values: values}})
	return err
}
