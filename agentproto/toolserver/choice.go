package toolserver

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"sync"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/internal/purpose"
)

// A question waits for the answer of a user.
type question struct {
	call    *call
	key     []byte // in questionBucket
	choices int
	asked   time.Time
	message string      // the webhook-id of the message that asks
	answer  chan answer // has room for the one answer
}

// An answer is the index of a choice, or why it is none.
type answer struct {
	selected int
	err      error
}

// A questionRecord is what is kept of a question, so that a function which runs again
// after a restart, and asks the same, gets the answer that was given meanwhile, or
// goes on waiting for it: the user is not asked twice, and an answer for which the
// runtime got a 200 is not lost. At another address, after a migration, nothing would
// come, so the user is asked again there.
type questionRecord struct {
	Secret  digest    `json:"secret"` // of the response_url
	Choices int       `json:"choices"`
	Asked   time.Time `json:"asked"`
	Message string    `json:"message"`
	URL     string    `json:"url"`              // Options.PublicURL: where the answer comes to
	Answer  *int      `json:"answer,omitempty"` // -1 for one that is none
}

// choices are the open questions, by the digest of the secret in their
// response_url.
type choices struct {
	mu       sync.Mutex
	open     map[digest]*question
	again    map[string]kept // by key: of calls that run again, until they ask
	answered memory
}

type kept struct {
	secret digest
	*question
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
//
// With [Options.State] a question outlives the process. When the function runs again
// and asks the same, the n-th time for the n-th time, Choose goes on waiting for the
// answer to the first message, or returns the answer that it had. A function that
// asks something else then sends a new question; an answer to the old one has no
// effect.
func Choose(ctx context.Context, prompt string, choices []string, def int) (int, error) {
	c := callOf(ctx, "Choose")
	switch {
	case len(choices) == 0:
		return 0, errors.New("there is nothing to choose from")
	case def < 0 || def >= len(choices):
		return 0, errors.New("the default is not one of the choices")
	}
	key, err := c.questionKey(prompt, choices, def)
	if err != nil {
		return 0, err
	}
	cs := &c.server.choices
	q, id := cs.asked(key)
	var lost <-chan error
	if q != nil {
		lost = c.lost(q.message)
	} else {
		secret := rand.Text() + rand.Text() // 256 bits
		q, id = &question{call: c, key: key, choices: len(choices), asked: time.Now(), answer: make(chan answer, 1)}, sha256.Sum256([]byte(secret))
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
		q.message, lost, m.ctx = m.id, m.lost, c.ctx
		cs.put(id, q)
		if err := c.ask(m, q, id); err != nil {
			cs.take(id)
			return 0, err
		}
	}
	defer cs.take(id)

	ctx, stop := context.WithDeadlineCause(ctx, q.asked.Add(c.server.opts.ChoiceTimeout), ErrNoAnswer)
	defer stop()
	select { // an answer that is there counts
	case a := <-q.answer:
		return a.selected, a.err
	default:
	}
	select {
	case a := <-q.answer:
		return a.selected, a.err
	case <-lost:
		if err := context.Cause(ctx); err != nil {
			return 0, err
		}
		c.unask(q)
		return 0, ErrNotAsked
	case <-c.server.leaving:
		return 0, ErrClosing
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// serveChoice receives an answer. Whoever knows the path is the runtime that was
// asked. A second answer, or a late one, is accepted and has no effect. After a
// restart that is so for the questions of calls whose messages are not all delivered;
// others are not known any more.
func (s *Server) serveChoice(w http.ResponseWriter, r *http.Request) {
	id := sha256.Sum256([]byte(r.PathValue("secret")))
	if !s.choices.known(id) {
		http.NotFound(w, r)
		return
	}
	if !isFor(r.Header.Get(standardwebhooks.HeaderWebhookID), purpose.Answer) {
		http.NotFound(w, r) // a message that somebody has captured elsewhere
		return
	}
	// A body that is no answer at all is one too: the runtime will not send another.
	a := answer{err: ErrBadAnswer}
	data, ok := s.body(w, r)
	if !ok {
		s.settleChoice(id, a)
		return
	}
	msg, err := agentproto.DecodeChoiceResponse(data, s.opts.Limits)
	if err != nil {
		s.settleChoice(id, a)
		refuse(w, err)
		return
	}
	wrong := ""
	switch q := s.choices.find(id); {
	case q == nil: // answered before
		return
	case msg.ID != q.call.inv.ID:
		wrong = `member "/id" is not the id of the call`
	case msg.Selected < 0 || msg.Selected >= q.choices:
		wrong = `member "/selected" is not the index of a choice`
	default:
		a = answer{selected: msg.Selected}
	}
	switch err := s.settleChoice(id, a); {
	case err != nil:
		s.log.Error("answer of a user is not in the store", "error", err)
		w.Header().Set("Retry-After", strconv.Itoa(retrySeconds))
		http.Error(w, "the answer cannot be kept", http.StatusServiceUnavailable)
	case wrong != "":
		http.Error(w, wrong, http.StatusBadRequest)
	}
}

// settleChoice closes a question with an answer, which is in the store before the
// function gets it. It does nothing if the question is closed.
func (s *Server) settleChoice(id digest, a answer) error {
	q := s.choices.take(id)
	if q == nil {
		return nil
	}
	selected := a.selected
	if a.err != nil {
		selected = -1
	}
	if err := s.store.update(func(tx tx) error {
		var r questionRecord
		old := tx.get(questionBucket, q.key)
		if old == nil {
			return nil // the call has ended
		}
		if err := json.Unmarshal(old, &r); err != nil {
			return err
		}
		r.Answer = &selected
		data, err := json.Marshal(r)
		if err != nil {
			return err
		}
		return tx.put(questionBucket, q.key, data)
	}); err != nil {
		s.choices.put(id, q)
		return err
	}
	q.answer <- a
	return nil
}

// put opens a question.
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

// find returns an open question, or nil.
func (cs *choices) find(id digest) *question {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open[id]
}

// known reports whether there is, or was, such a question.
func (cs *choices) known(id digest) bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.open[id] != nil || cs.answered.has(id)
}
