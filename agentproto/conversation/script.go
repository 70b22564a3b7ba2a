package conversation

import (
	"context"
	"errors"
	"sync"
)

// A Script is a [Model] that returns the replies of a list, one for each time that a thread asks, so that a test or a
// demonstration has the same conversation each time. Each thread starts at the beginning of the list. The index of a reply is the
// number of earlier replies of the model in the history, so a round that is repeated after a restart or an interruption gets the
// same reply again.
type Script []Reply

// Reply returns the next reply. It returns an error after the end of the list.
func (s Script) Reply(_ context.Context, r *Request) (*Reply, error) {
	if r.Summary {
		return &Reply{Text: "A summary, as a script has it."}, nil
	}
	n := r.said
	for _, m := range r.Messages {
		if m.Kind == Assistant && !m.Synthetic {
			n++
		}
	}
	if n >= len(s) {
		return nil, Permanent(errors.New("the script has ended"))
	}
	reply := s[n]
	return &reply, nil
}

// A Manual is a [Model] whose answers come from other code, such as a test, or from a person: each request waits until
// [Question.Answer] is called for it. The zero value is ready to use.
type Manual struct {
	mu    sync.Mutex
	asked map[string]*Question
	news  chan struct{} // closed when a new question arrives
}

// A Question is a request that waits for an answer.
type Question struct {
	Request *Request
	answer  chan *Reply
	manual  *Manual
}

// Reply waits until the request is answered.
func (m *Manual) Reply(ctx context.Context, r *Request) (*Reply, error) {
	q := &Question{r, make(chan *Reply, 1), m}
	m.mu.Lock()
	if m.asked == nil {
		m.asked = map[string]*Question{}
	}
	m.asked[r.Thread] = q
	m.tell()
	m.mu.Unlock()
	defer q.close()
	select {
	case reply := <-q.answer:
		return reply, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// tell wakes the callers of Next. The caller holds mu.
func (m *Manual) tell() {
	if m.news != nil {
		close(m.news)
		m.news = nil
	}
}

// Next waits until a thread asks and returns the question. The request stays open until it is answered or no longer wanted.
func (m *Manual) Next(ctx context.Context, thread string) (*Question, error) {
	for {
		m.mu.Lock()
		q := m.asked[thread]
		if q != nil {
			m.mu.Unlock()
			return q, nil
		}
		if m.news == nil {
			m.news = make(chan struct{})
		}
		news := m.news
		m.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// close removes q from the open questions.
func (q *Question) close() {
	q.manual.mu.Lock()
	defer q.manual.mu.Unlock()
	if q.manual.asked[q.Request.Thread] == q {
		delete(q.manual.asked, q.Request.Thread)
	}
}

// Answer answers a question. Only the first answer counts.
func (q *Question) Answer(r *Reply) {
	q.close()
	select {
	case q.answer <- r:
	default:
	}
}
