package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/agui"
	"github.com/millrace/millrace/agentproto/conversation"
	"github.com/millrace/millrace/agentproto/follow"
	"github.com/millrace/millrace/agentproto/host"
	"github.com/millrace/millrace/dataflow/durable/monitor"
	"github.com/millrace/millrace/internal/edge"
	"github.com/millrace/millrace/internal/plain"
)

// maxWait limits how long a request may wait for a result. A request that does not want to
// wait is given atOnce, which is enough to find an existing result.
const (
	maxWait = 5 * time.Minute
	atOnce  = 50 * time.Millisecond
)

// An api makes and reads the calls of a runtime over HTTP.
type api struct {
	rt    *host.Runtime
	user  *apiUser
	token *edge.Token
	note  func(toolServer string) string // what else the pages show about a tool server
	waits *shares                        // requests that wait for an answer
}

func (a api) handler() http.Handler {
	a.waits = newShares(mostWaits)
	mux := routes{http.NewServeMux(), a.token}
	mux.HandleFunc("POST /calls", a.call)
	mux.HandleFunc("GET /calls/{thread}/{id}", a.result)
	mux.HandleFunc("DELETE /calls/{thread}/{id}", a.cancel)
	a.handleCalls(mux)
	a.handleLists(mux)
	a.handleEvents(mux)
	mux.HandleFunc("DELETE /threads/{thread}", soon(a.closeThread))
	mux.HandleFunc("GET /stats", a.stats)
	mux.HandleFunc("POST /sessions", a.openSession)
	mux.HandleFunc("POST /sessions/{session}/migrate", a.migrate)
	mux.HandleFunc("POST /threads/{thread}/messages", soon(a.say))
	mux.HandleFunc("GET /threads/{thread}/messages", a.messages)
	mux.Handle("GET /threads/{thread}/events", newShares(mostStreams).handler(follow.New(a.rt, follow.Options{})))
	mux.Handle("POST /agui", newShares(mostStreams).handler(agui.New(a.rt, agui.Options{Session: sessionOf})))
	mux.HandleFunc("POST /threads/{thread}/interrupt", soon(a.interrupt))
	mux.HandleFunc("GET /threads/{thread}/prompts", a.asks)
	mux.HandleFunc("POST /threads/{thread}/answers", a.answerPrompt)
	if letters := a.rt.Quarantine(); letters != nil {
		quarantine := monitor.Quarantine(letters)
		mux.Handle("/quarantine", quarantine)
		mux.Handle("/quarantine/", quarantine)
	}
	return mux
}

// acceptWithin is how long a request that changes something may wait until it is kept, as on a full disk, before it is answered
// 503. It is the default of [host.Timeouts].Accept, for callbacks.
const acceptWithin = 5 * time.Second

// soon gives a request at most acceptWithin.
func soon(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), acceptWithin)
		defer cancel()
		h(w, r.WithContext(ctx))
	}
}

// call answers 202 when the call is kept, 409 if it was made before, and 410 if its thread has moved to another runtime.
func (a api) call(w http.ResponseWriter, r *http.Request) {
	var c callLine
	if !body(w, r, &c) {
		return
	}
	if c.GroupID == "" || c.Operation == "" {
		answer(w, http.StatusBadRequest, problem{`not a call: "group_id" and "operation" are required`})
		return
	}
	from := bearerOf(r)
	user, ok := from.userID(w, r, c.UserID)
	if !ok {
		return
	}
	thread := from.thread(c.GroupID)
	if _, _, err := a.rt.ToolsOf(r.Context(), thread); err != nil { // tool servers that do not answer have limits of their own
		failed(w, err)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), acceptWithin)
	defer cancel()
	key, err := a.rt.Call(ctx, host.Request{
		GroupID: thread, ID: c.ID, Operation: c.Operation, UserID: user, Arguments: c.arguments(),
	})
	switch {
	case errors.Is(err, host.ErrDuplicateCall):
		answer(w, http.StatusConflict, problem{err.Error()})
	case err != nil:
		failed(w, err)
	default:
		answer(w, http.StatusAccepted, made202{from.named(key.GroupID), key.ID})
	}
}

// made202 identifies a call that is kept.
type made202 struct {
	GroupID string `json:"group_id"`
	ID      string `json:"id"`
}

// result answers with the result as soon as it exists. It answers 204 if there is no result
// within the time that the request wants to wait, and 404 at once if the call does not
// exist. A call that was answered with 202 is not answered with 404 until it is forgotten, a
// day after its result.
func (a api) result(w http.ResponseWriter, r *http.Request) {
	wait, ok := waitOf(w, r)
	if !ok {
		return
	}
	key := keyIn(r)
	res, err := a.await(r.Context(), key, atOnce)
	if errors.Is(err, errPending) {
		switch known, err := a.rt.Known(r.Context(), key); {
		case errors.Is(err, host.ErrElsewhere):
			answer(w, http.StatusGone, problem{err.Error()})
			return
		case err != nil:
			unavailable(w, err)
			return
		case !known:
			answer(w, http.StatusNotFound, problem{fmt.Sprintf("there is no call %q in thread %q", key.ID, key.GroupID)})
			return
		}
		release, ok := a.hold(w, r, wait)
		if !ok {
			return
		}
		defer release()
		if res, err = a.await(r.Context(), key, wait-atOnce); errors.Is(err, errPending) {
			// If another process runs the call, it may not have been asked for long enough, and knows better where the thread is.
			if d, described := a.rt.Describe(r.Context(), key); errors.Is(described, host.ErrElsewhere) {
				err = described
			} else if described == nil && d.Resolution != nil {
				res, err = a.await(r.Context(), key, acceptWithin)
			}
		}
	}
	switch {
	case errors.Is(err, host.ErrElsewhere):
		answer(w, http.StatusGone, problem{err.Error()})
	case err == nil:
		found := resultOf(res)
		found.GroupID = bearerOf(r).named(found.GroupID)
		answer(w, http.StatusOK, found)
	case errors.Is(err, errPending):
		w.WriteHeader(http.StatusNoContent)
	default:
		unavailable(w, err)
	}
}

// errPending is the cause when there was no result in time.
var errPending = errors.New("pending")

// await waits for a result, at most for the given time.
func (a api) await(ctx context.Context, key agentproto.CallKey, wait time.Duration) (*agentproto.Resolution, error) {
	if wait <= 0 {
		return nil, errPending
	}
	ctx, cancel := context.WithTimeoutCause(ctx, wait, errPending)
	defer cancel()
	res, err := a.rt.Await(ctx, key)
	if err != nil && context.Cause(ctx) == errPending {
		err = errPending
	}
	return res, err
}

// waitOf returns how long a request wants to wait. If the parameter is invalid, it answers
// the request and reports false.
func waitOf(w http.ResponseWriter, r *http.Request) (wait time.Duration, ok bool) {
	text := r.URL.Query().Get("wait")
	if text == "" {
		return 0, true
	}
	wait, err := time.ParseDuration(text)
	if err != nil || wait < 0 || wait > maxWait {
		answer(w, http.StatusBadRequest, problem{fmt.Sprintf("wait is %q: it has to be a duration up to %v, such as 30s", text, maxWait)})
		return 0, false
	}
	return wait, true
}

func (a api) cancel(w http.ResponseWriter, r *http.Request) {
	a.done(w, a.rt.Cancel(r.Context(), keyIn(r)))
}

func (a api) closeThread(w http.ResponseWriter, r *http.Request) {
	err := a.thread(r).Close(r.Context())
	if errors.Is(err, host.ErrNoModel) || errors.Is(err, conversation.ErrUnknownThread) {
		err = a.rt.CloseThread(r.Context(), r.PathValue("thread"))
	}
	a.done(w, err)
}

func keyIn(r *http.Request) agentproto.CallKey {
	return agentproto.CallKey{GroupID: r.PathValue("thread"), ID: r.PathValue("id")}
}

// resultOf returns a resolution in the form in which it is printed. Unknown fields are left
// out.
func resultOf(res *agentproto.Resolution) apiResult {
	return apiResult{
		GroupID: res.Key.GroupID, ID: res.Key.ID,
		OK: !res.Result.IsError(), Cause: res.Cause.String(), Text: res.Result.String(), Content: res.Result.Content,
	}
}

// An apiResult is a result in the format of the API.
type apiResult struct {
	GroupID string               `json:"group_id"`
	ID      string               `json:"id"`
	OK      bool                 `json:"ok"`    // false for every result whose text starts with "Error: "
	Cause   string               `json:"cause"` // which input resolved the call
	Text    string               `json:"text"`  // as the model sees it
	Content []agentproto.Content `json:"content,omitempty"`
}

type problem struct {
	Error string `json:"error"`
}

// unavailable answers 503: nothing was done, or the outcome is unknown, and the client
// should ask again in a second.
func unavailable(w http.ResponseWriter, err error) {
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = fmt.Sprintf("nothing was kept or looked up within %v, as on a full disk: ask again when there is room; a change may still be kept", acceptWithin)
	}
	w.Header().Set("Retry-After", "1")
	answer(w, http.StatusServiceUnavailable, problem{text})
}

func answer(w http.ResponseWriter, status int, body any) {
	text, err := json.Marshal(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(append(plain.JSON(text), '\n'))
}

// serveAPI serves the API and the pages, which require its token too, until ctx ends.
func (f *serveFlags) serveAPI(ctx context.Context, a api, front http.Handler, guard edge.Policy, token string, logger *slog.Logger) error {
	listener, err := f.apiListener, error(nil)
	if listener == nil {
		listener, err = f.apiTLS.listen(*f.address, logger)
	}
	if err != nil {
		return fmt.Errorf("API: %w", err)
	}
	scheme := "http"
	if f.apiTLS.given() {
		scheme = "https"
	}
	mux := http.NewServeMux()
	mux.Handle("/", a.handler())
	routes{mux, guard.Token}.Handle(mcpPath, front)
	f.users.serve(mux, f.apiURL())
	mux.Handle(inspectPages, guard.Token.People(flowPages(a.rt, token, a.note)))
	server := edge.New(edge.Guard(guard, mux), edge.Options{Body: maxLine})
	fmt.Fprintf(stderr, "millrace serve: what the runtime remembers at %s://%s%s, with the token as password\n", scheme, listener.Addr(), inspectPages)
	fmt.Fprintf(stderr, "millrace serve: calls at %s://%s/calls, callbacks at %s\n", scheme, listener.Addr(), a.rt.PublicURL())
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(closing) // requests that are not answered by then are cut off
	})
	defer stop()
	f.served = true
	return server.Serve(listener)
}
