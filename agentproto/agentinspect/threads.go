package agentinspect

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/millrace/millrace/agentproto/conversation"
)

// A thread is the state of a thread, in JSON.
type thread struct {
	ID            string   `json:"id"`
	UserID        string   `json:"user_id,omitempty"`
	Ancestors     []string `json:"ancestors,omitempty"`
	State         string   `json:"state"` // a short description of the fields below
	Messages      int      `json:"messages"`
	Asking        bool     `json:"asking"` // the model is being asked
	Pending       int      `json:"pending"`
	Authorizing   int      `json:"authorizing"`
	Subscriptions int      `json:"subscriptions"`
	Deferred      int      `json:"deferred"`
	Children      int      `json:"children"`
	Views         int      `json:"views"`
	Closed        bool     `json:"closed"`
	Place         string   `json:"place"`
}

func threadOf(st conversation.Standing) thread {
	return thread{
		st.ID, st.UserID, st.Ancestors, ThreadState(st), st.Messages, st.Asking, st.Pending, st.Authorizing, st.Subscriptions, st.Deferred,
		st.Children, st.Views, st.Closed, st.Place,
	}
}

// threads shows the threads that this process remembers.
func (v *view) threads(q request) error {
	shown := struct {
		At      time.Time `json:"at"`
		Threads []thread  `json:"threads"`
		Next    string    `json:"next,omitempty"` // the parameter "from" of the next page
	}{At: time.Now().UTC()}
	var err error
	shown.Threads, shown.Next, err = Find(q.r.Context(), q.r.URL.Query().Get("from"), pageLength, v.rt.Threads, func(st conversation.Standing) (thread, bool) {
		return threadOf(st), true
	})
	if err != nil {
		return err
	}
	return q.show("threads", "threads", shown)
}

// standing returns the state of a thread.
func (v *view) standing(ctx context.Context, id string) (thread, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	st, found, err := v.rt.ThreadStanding(ctx, id)
	if err == nil && !found {
		err = problem{http.StatusNotFound, fmt.Sprintf("this process remembers no thread %q", id)}
	}
	return threadOf(st), err
}

// A message is a message of a transcript, in JSON.
type message struct {
	N      int      `json:"n"`
	Kind   string   `json:"kind"`
	Text   string   `json:"text,omitempty"`
	Calls  []called `json:"calls,omitempty"`
	Result string   `json:"result,omitempty"` // id of the call whose result Text is
}

// A called is a call made by a model.
type called struct {
	ID        string `json:"id"`
	Operation string `json:"operation"`
	Arguments string `json:"arguments,omitempty"`
}

func messageOf(m *conversation.Message) message {
	shown := message{N: m.N, Kind: m.Kind.String(), Text: cut(m.Text)}
	for _, c := range m.Calls {
		shown.Calls = append(shown.Calls, called{c.ID, c.Name, cut(c.Arguments)})
	}
	if m.Result != nil {
		shown.Result, shown.Text = m.Result.ID, cut(m.Result.Text())
	}
	return shown
}

// mostMessages is how many messages a page shows.
const mostMessages = 200

// transcript returns the existing messages of a thread from number from up to until, but at most mostMessages.
func (v *view) transcript(ctx context.Context, id string, from, until int) (all []message, err error) {
	all = []message{}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if from >= until {
		return all, nil
	}
	for m, err := range v.rt.Thread(id).Follow(ctx, from) {
		if err != nil {
			return all, err
		}
		all = append(all, messageOf(&m))
		if m.N+1 >= until || len(all) == mostMessages {
			break
		}
	}
	return all, nil
}

// thread shows a thread with the end of its transcript.
func (v *view) thread(q request) error {
	id := q.r.URL.Query().Get("id")
	t, err := v.standing(q.r.Context(), id)
	if err != nil {
		return err
	}
	if q.json {
		return q.show("", "", t)
	}
	shown := struct {
		At       time.Time
		Thread   thread
		Messages []message
		From     int // number of the next message
		Prompts  []prompt
		Answers  bool
	}{At: time.Now().UTC(), Thread: t, From: max(0, t.Messages-mostMessages), Answers: v.options.Answers}
	if shown.Messages, err = v.transcript(q.r.Context(), id, shown.From, t.Messages); err != nil {
		return err
	}
	if n := len(shown.Messages); n > 0 {
		shown.From = shown.Messages[n-1].N + 1
	}
	shown.Prompts = v.promptsOf(func(p prompt) bool { return p.Thread == id })
	return q.show("thread "+id, "thread", shown)
}

// messages returns messages of a thread, from a number on, as JSON.
func (v *view) messages(q request) error {
	values := q.r.URL.Query()
	from, err := number(values.Get("from"))
	if err != nil {
		return err
	}
	t, err := v.standing(q.r.Context(), values.Get("id"))
	if err != nil {
		return err
	}
	all, err := v.transcript(q.r.Context(), t.ID, from, t.Messages)
	if err != nil {
		return err
	}
	next := from
	if n := len(all); n > 0 {
		next = all[n-1].N + 1
	}
	q.page.JSON(q.w, http.StatusOK, struct {
		Messages []message `json:"messages"`
		Next     int       `json:"next"` // the parameter "from" of the next page
	}{all, next})
	return nil
}

// number parses the number of a message; an empty text is 0.
func number(text string) (int, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, problem{http.StatusBadRequest, `"from" is the number of a message`}
	}
	return n, nil
}
