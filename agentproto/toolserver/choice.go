package toolserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"sync"

	"github.com/millrace/millrace/agentproto"
)

// A question waits for the answer of a user.
type question struct {
	call    *call
	choices int
	answer  chan answer // has room for the one answer
}

// An answer is the index of a choice, or why it is none.
type answer struct {
	selected int
	err      error
}

// choices are the open questions, by the digest of the secret in their
// response_url.
type choices struct {
	mu       sync.Mutex
	open     map[digest]*question
	answered memory
}

// Choose asks the user to choose one of choices and returns its index. Def is the
// index that stands for a user who dismisses the question.
//
// Choose is called from a tool function, with its context or one derived from it,
// and waits for the answer for [Options.ChoiceTimeout]. It returns [ErrNoAnswer]
// after that, [ErrBadAnswer] if what came is not the index of a choice,
// [ErrNotAsked] if the runtime did not take the question, [ErrClosing] when the
// server is closed, and the context's cause when the call is cancelled. It panics
// if ctx is not one of a tool function.
func Choose(ctx context.Context, prompt string, choices []string, def int) (int, error) {
	c := callOf(ctx, "Choose")
	switch {
	case len(choices) == 0:
		return 0, errors.New("there is nothing to choose from")
	case def < 0 || def >= len(choices):
		return 0, errors.New("the default is not one of the choices")
	}
	secret := rand.Text() + rand.Text() // 256 bits
	q := &question{call: c, choices: len(choices), answer: make(chan answer, 1)}
	id := sha256.Sum256([]byte(secret))
	c.server.choices.put(id, q)
	defer c.server.choices.take(id)

	ctx, stop := context.WithTimeoutCause(ctx, c.server.opts.ChoiceTimeout, ErrNoAnswer)
	defer stop()
	m, err := c.server.encode(c, &agentproto.UserChoice{
		GroupID:     c.inv.GroupID,
		ID:          c.inv.ID,
		CallID:      c.inv.CallID,
		Prompt:      prompt,
		Choices:     choices,
		Default:     def,
		ResponseURL: c.server.opts.PublicURL + choicePath + secret,
	})
	if err != nil {
		return 0, err
	}
	m.ctx = ctx
	c.post(m)

	select {
	case a := <-q.answer:
		return a.selected, a.err
	case <-m.lost:
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		return 0, ErrNotAsked
	case <-c.server.leaving:
		return 0, ErrClosing
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// serveChoice receives an answer. Whoever knows the path is the runtime that was
// asked. A second answer, or a late one, is accepted and has no effect.
func (s *Server) serveChoice(w http.ResponseWriter, r *http.Request) {
	id := sha256.Sum256([]byte(r.PathValue("secret")))
	if !s.choices.known(id) {
		http.NotFound(w, r)
		return
	}
	// A body that is no answer at all is one too: the runtime will not send another.
	data, ok := s.body(w, r)
	if !ok {
		s.choices.settle(id, answer{err: ErrBadAnswer})
		return
	}
	msg, err := agentproto.DecodeChoiceResponse(data, s.opts.Limits)
	if err != nil {
		s.choices.settle(id, answer{err: ErrBadAnswer})
		refuse(w, err)
		return
	}
	q := s.choices.take(id)
	switch {
	case q == nil: // answered before
	case msg.ID != q.call.inv.ID:
		q.answer <- answer{err: ErrBadAnswer}
		http.Error(w, `member "/id" is not the id of the call`, http.StatusBadRequest)
	case msg.Selected < 0 || msg.Selected >= q.choices:
		q.answer <- answer{err: ErrBadAnswer}
		http.Error(w, `member "/selected" is not the index of a choice`, http.StatusBadRequest)
	default:
		q.answer <- answer{selected: msg.Selected}
	}
}

func (cs *choices) put(id digest, q *question) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.open == nil {
		cs.open = make(map[digest]*question)
	}
	cs.open[id] = q
}

// take closes a question. It returns nil if the question is closed already.
func (cs *choices) take(id digest) *question {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	q := cs.open[id]
	if q != nil {
		delete(cs.open, id)
		cs.answered.add(id)
	}
	return q
}

// settle closes a question with an answer.
func (cs *choices) settle(id digest, a answer) {
	if q := cs.take(id); q != nil {
		q.answer <- a
	}
}

// known reports whether there is, or was, such a question.
func (cs *choices) known(id digest) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open[id] != nil || cs.answered.has(id)
}
