// Package agui serves threads to user interfaces that speak AG-UI (docs.ag-ui.com), from the same source as package follow. Start
// with [New].
//
//	mux.Handle("POST /agui", agui.New(rt, agui.Options{}))
//
// A run is one turn. If the last message of the input is a new one of the user's, it is said in the thread of threadId, which is
// opened if it does not exist. The run ends when the model has answered. Without a new message, a run shows what is in progress;
// a disconnected interface continues that way. AG-UI has no numbers to resume from, so each run begins with a MESSAGES_SNAPSHOT
// of the history. Its messages have ids of the form m7. A user message with such an id was said before, and so was one with the
// id and the text of an earlier run: a client that repeats a request because the answer was lost says its message once.
//
//	RUN_STARTED, MESSAGES_SNAPSHOT
//	STATE_SNAPSHOT                    the state of the thread and its open prompts, whenever they change
//	TEXT_MESSAGE_START, CONTENT, END  what the model writes while it writes
//	TOOL_CALL_START, ARGS, END        a call, when it is made
//	TOOL_CALL_RESULT                  its result
//	CUSTOM                            name "view": the content of a view; "summary": from here on the model is shown a summary in the
//	                                  place of the first messages; "notes": which models did not answer before
//	RUN_FINISHED, RUN_ERROR           the turn is over; the model could not be asked
//
// Another MESSAGES_SNAPSHOT takes back what a model wrote in a failed attempt. Prompts are answered through the runtime's API and
// not by a run: the input's resume is refused. Tools of the client are refused too, because they would be lost with the client,
// while the calls of a thread are kept.
package agui

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/follow"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/plain"
	"github.com/millrace/millrace/internal/sse"
)

// Options are the settings of a [Server]. A zero field means the default that its comment names.
type Options struct {
	// Session returns the session to open for the thread of a run, if the thread is not open. Nil means a session with its ID
	// alone. An error refuses the run.
	Session func(r *http.Request, threadID string) (host.SessionRequest, error)
	// Clients is how many runs may be shown at once. Further ones are answered 503. Zero means 256.
	Clients int
	// Body is the maximum size of an input in bytes. Zero means 4 MiB.
	Body int64
}

// A Server answers POST requests whose body is a RunAgentInput with the events of a run. It does not authenticate: a handler in
// front of it has to decide who may ask. It is safe for concurrent use.
type Server struct {
	rt      *host.Runtime
	opts    Options
	clients chan struct{}
}

// New returns a server for the threads of a runtime.
func New(rt *host.Runtime, o Options) *Server {
	o.Clients = cmp.Or(o.Clients, 256)
	o.Body = cmp.Or(o.Body, 4<<20)
	if o.Session == nil {
		o.Session = func(_ *http.Request, id string) (host.SessionRequest, error) { return host.SessionRequest{ID: id}, nil }
	}
	return &Server{rt, o, make(chan struct{}, o.Clients)}
}

// acceptWithin is how long a run may wait until its message is kept, as on a full disk, before it is refused.
const acceptWithin = 5 * time.Second

// say opens the thread of a run and says its message there, if it has one. Before is the state before the message, unless the
// message was said again.
func (s *Server) say(ctx context.Context, open host.SessionRequest, name, said string) (thread *host.Thread, before conversation.Status, again bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, acceptWithin)
	defer cancel()
	if thread, err = s.rt.OpenSession(ctx, open); err != nil {
		return nil, before, false, err
	}
	if before, err = thread.Status(ctx); err != nil || said == "" {
		return thread, before, false, err
	}
	if again, err = thread.SayOnce(ctx, name, said); again && err == nil {
		before, err = thread.Status(ctx)
	}
	return thread, before, again, err
}

// An input is the part of a RunAgentInput that is used. The protocol grows, so unknown members are ignored.
type input struct {
	ThreadID string           `json:"threadId"`
	RunID    string           `json:"runId"`
	Tools    []jsontext.Value `json:"tools"`
	Resume   []jsontext.Value `json:"resume"`
	Messages []struct {
		ID      string         `json:"id"`
		Role    string         `json:"role"`
		Content jsontext.Value `json:"content"`
	} `json:"messages"`
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, s.opts.Body))
	if err != nil {
		refuse(w, http.StatusRequestEntityTooLarge, errors.New("the input is too large, or broke off"))
		return
	}
	var in input
	if err := json.Unmarshal(body, &in); err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("not a RunAgentInput: %w", err))
		return
	}
	said, name, err := in.said()
	switch {
	case in.ThreadID == "" || in.RunID == "":
		err = errors.New("threadId and runId are required")
	case len(in.Tools) > 0:
		err = errors.New("tools of the client are not called here: a call is kept, and they are not")
	case len(in.Resume) > 0:
		err = errors.New("nothing is resumed by a run: answer prompts at the API")
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	select {
	case s.clients <- struct{}{}:
		defer func() { <-s.clients }()
	default:
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%d runs are shown; that is as many as may be", s.opts.Clients))
		return
	}
	open, err := s.opts.Session(r, in.ThreadID)
	if err != nil {
		refuse(w, http.StatusForbidden, err)
		return
	}
	thread, before, again, err := s.say(r.Context(), open, name, said)
	if err != nil {
		refuse(w, statusOf(err), err)
		return
	}
	if again {
		said = ""
	}
	out := sse.Begin(w, sse.Options{})
	defer out.End()
	run := run{out: out, in: &in, said: said, before: before.Messages, snapshot: before.Messages, waits: said != "" || before.Asking || len(before.Pending) > 0}
	if said != "" {
		run.snapshot++ // including what the user says now
	}
	run.follow(r.Context(), thread)
}

// said returns what the user says with this run, or "" for nothing new, and the name for saying it once. The name is derived from
// the message, so that a client that repeats a message because the answer was lost says it once.
func (in *input) said() (text, name string, err error) {
	if len(in.Messages) == 0 {
		return "", "", nil
	}
	last := in.Messages[len(in.Messages)-1]
	if last.Role != "user" || ours(last.ID) {
		return "", "", nil
	}
	if text, err = textOf(last.Content); err != nil {
		return "", "", err
	}
	id := last.ID
	if id == "" {
		id = "run " + in.RunID
	}
	sum := sha256.Sum256([]byte(id + "\x00" + text))
	return text, "agui:" + base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

// textOf returns the text of a message's content.
func textOf(content jsontext.Value) (text string, err error) {
	if content.Kind() == '"' {
		err := json.Unmarshal(content, &text)
		return text, err
	}
	var parts []struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	if err := json.Unmarshal(content, &parts); err != nil {
		return "", fmt.Errorf("the content of the last message: %w", err)
	}
	for _, p := range parts {
		if p.Type != "text" {
			return "", fmt.Errorf("the last message has a part of type %q: only text can be said", p.Type)
		}
		text += p.Text
	}
	return text, nil
}

// ours reports whether an id was assigned by a snapshot.
func ours(id string) bool {
	digits, ok := strings.CutPrefix(id, "m")
	return ok && digits != "" && strings.Trim(digits, "0123456789") == ""
}

// statusOf returns the HTTP status for a run that cannot start.
func statusOf(err error) int {
	switch {
	case errors.Is(err, host.ErrBadID):
		return http.StatusBadRequest
	case errors.Is(err, host.ErrMoving):
		return http.StatusServiceUnavailable // the move may fail
	case errors.Is(err, conversation.ErrClosedThread), errors.Is(err, conversation.ErrMoved), errors.Is(err, host.ErrElsewhere):
		return http.StatusGone
	case errors.Is(err, host.ErrNoModel):
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}

// refuse answers with an error in JSON.
func refuse(w http.ResponseWriter, status int, err error) {
	text, _ := json.Marshal(map[string]string{"error": err.Error()})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(plain.JSON(text), '\n'))
}

// follow sends the events of the run until it is over.
func (r *run) follow(ctx context.Context, thread *host.Thread) {
	r.send(map[string]any{"type": "RUN_STARTED", "threadId": r.in.ThreadID, "runId": r.in.RunID})
	for e, err := range thread.Watch(ctx, 0) {
		if err != nil {
			r.fail(err.Error())
			return
		}
		switch e.Kind {
		case host.WatchedMessage:
			r.message(e.Message)
		case host.WatchedState:
			state := follow.StateOf(e.State)
			r.state = &state
			r.tellState()
		case host.WatchedPrompts:
			r.prompts = follow.PromptsOf(e.Prompts)
			r.tellState()
		case host.WatchedView:
			r.send(map[string]any{"type": "CUSTOM", "name": "view", "value": follow.View{Type: e.View.Type, Content: e.View.Content}})
		case host.WatchedDelta:
			r.delta(e.Delta)
		case host.WatchedReset:
			r.reset()
		}
		if r.rest(); r.over || r.err != nil {
			return
		}
	}
	r.finish() // the thread is closed
}
