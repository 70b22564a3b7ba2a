package follow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/internal/plain"
	"github.com/millrace/millrace/internal/sse"
)

// Options are the settings of a [Server]. A zero field means the default that its comment names.
type Options struct {
	// Clients is how many clients may follow threads at once. Further ones are answered 503. Zero means 256.
	Clients int
	// Quiet is how long nothing is sent before a comment is sent. Zero means 15 s.
	Quiet time.Duration
	// Stall is how long a client may accept nothing before it is disconnected. Zero means 10 s.
	Stall time.Duration
	// Retry is how long clients are told to wait before they reconnect. Zero means 1 s.
	Retry time.Duration
}

// A Server answers GET requests with the events of the thread that the request's path value "thread" names. It does not
// authenticate: a handler in front of it has to decide who may ask. It is safe for concurrent use.
type Server struct {
	rt      *host.Runtime
	opts    Options
	clients chan struct{}
}

// New returns a server for the threads of a runtime.
func New(rt *host.Runtime, o Options) *Server {
	o.Clients = cmp.Or(o.Clients, 256)
	o.Retry = cmp.Or(o.Retry, time.Second)
	return &Server{rt, o, make(chan struct{}, o.Clients)}
}

// Clients returns how many clients follow threads now.
func (s *Server) Clients() int { return len(s.clients) }

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	from, resumed, err := fromOf(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	thread := s.rt.Thread(r.PathValue("thread"))
	st, err := thread.Status(r.Context())
	switch {
	case err == nil && st.Session == nil:
		err = conversation.ErrUnknownThread
	case err == nil && st.Moved:
		err = conversation.ErrMoved
	case err == nil && st.Closed && from >= st.Messages:
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if err != nil {
		refuse(w, statusOf(err), err)
		return
	}
	select {
	case s.clients <- struct{}{}:
		defer func() { <-s.clients }()
	default:
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("%d clients follow threads; that is as many as may", s.opts.Clients))
		return
	}
	out := sse.Begin(w, sse.Options{Quiet: s.opts.Quiet, Stall: s.opts.Stall})
	defer out.End()
	if out.Retry(s.opts.Retry) != nil {
		return
	}
	s.send(r.Context(), out, thread, from, resumed)
}

// send sends events until the thread or the client has ended.
func (s *Server) send(ctx context.Context, out *sse.Writer, thread *host.Thread, from int, resumed bool) {
	for e, err := range thread.Watch(ctx, from) {
		if err != nil {
			return // the client reconnects and then gets the reason
		}
		switch e.Kind {
		case host.WatchedMessage:
			id := strconv.Itoa(e.Message.N)
			err = out.Send(MessageEvent, id, MessageOf(e.Message))
			if err == nil && e.Message.Kind == conversation.Closed {
				err = out.Send(ClosedEvent, id, struct{}{})
			}
		case host.WatchedState:
			if err = out.Send(StateEvent, "", StateOf(e.State)); err == nil && resumed {
				resumed, err = false, out.Send(ResetEvent, "", Delta{})
			}
		case host.WatchedPrompts:
			err = out.Send(PromptsEvent, "", PromptsOf(e.Prompts))
		case host.WatchedView:
			err = out.Send(ViewEvent, "", View{e.View.Type, e.View.Content})
		case host.WatchedDelta:
			err = out.Send(DeltaEvent, "", DeltaOf(e.Delta))
		case host.WatchedReset:
			err = out.Send(ResetEvent, "", DeltaOf(e.Delta))
		}
		if err != nil {
			return
		}
	}
}

// fromOf returns the number of the first message that a request wants, and whether the client reconnects.
func fromOf(r *http.Request) (from int, resumed bool, err error) {
	if last := r.Header.Get("Last-Event-ID"); last != "" {
		n, err := strconv.Atoi(last)
		if err != nil || n < 0 || n+1 < 0 {
			return 0, false, fmt.Errorf("Last-Event-ID is %q: it has to be the number of a message", last)
		}
		return n + 1, true, nil
	}
	if text := r.URL.Query().Get("from"); text != "" {
		if from, err = strconv.Atoi(text); err != nil || from < 0 {
			return 0, false, fmt.Errorf("from is %q: it has to be the number of a message", text)
		}
	}
	return from, false, nil
}

// statusOf returns the HTTP status for a thread that cannot be followed.
func statusOf(err error) int {
	switch {
	case errors.Is(err, conversation.ErrUnknownThread):
		return http.StatusNotFound
	case errors.Is(err, conversation.ErrMoved):
		return http.StatusGone
	case errors.Is(err, host.ErrNoModel):
		return http.StatusConflict
	}
	return http.StatusServiceUnavailable
}

// refuse answers with an error in JSON.
func refuse(w http.ResponseWriter, status int, err error) {
	text, _ := json.Marshal(struct {
		Error string `json:"error"`
	}{err.Error()})
	w.Header().Set("Content-Type", "application/json")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", "1")
	}
	w.WriteHeader(status)
	w.Write(append(plain.JSON(text), '\n'))
}
