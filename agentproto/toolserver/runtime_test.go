package toolserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/toolserver"
)

// received is a message that a tool posted.
type received struct {
	agentproto.Callback
	url    string
	id     string // webhook-id
	header http.Header
	body   string
	at     time.Time
}

// A runtime acts as the runtime in memory: it is the transport of the server's callbacks and
// calls the server's handler directly.
type runtime struct {
	t        testing.TB
	server   *toolserver.Server
	opts     toolserver.Options
	log      *logBuffer
	messages chan received
	patience time.Duration // how long to wait for the next message

	mu       sync.Mutex
	attempts []received
	seen     map[string]bool // webhook-ids; if not nil, a repeated message is ignored
	// answer decides the answer to the n-th delivery; nil means 200.
	answer func(n int, m received) (*http.Response, error)
}

// newRuntime returns a runtime and its tool server.
func newRuntime(t testing.TB, opts toolserver.Options) *runtime {
	rt := &runtime{t: t, log: new(logBuffer), messages: make(chan received, 4096), patience: 200 * time.Hour}
	if opts.Name == "" {
		opts.Name = "test"
	}
	if opts.PublicURL == "" {
		opts.PublicURL = "https://tools.example"
	}
	opts.CallbackTransport = rt
	opts.Logger = slog.New(slog.NewTextHandler(rt.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	rt.opts, rt.server = opts, toolserver.New(opts)
	return rt
}

// RoundTrip receives a message from the server.
func (rt *runtime) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	msg, err := agentproto.DecodeCallback(body, agentproto.Limits{})
	if err != nil {
		rt.t.Errorf("the server posted %s: %v", body, err)
	}
	if got := r.Header.Get("Content-Type"); got != "application/json" {
		rt.t.Errorf("Content-Type = %q", got)
	}
	m := received{msg, r.URL.String(), r.Header.Get("webhook-id"), r.Header, string(body), time.Now()}
	rt.mu.Lock()
	rt.attempts = append(rt.attempts, m)
	n, answer := len(rt.attempts), rt.answer
	rt.mu.Unlock()
	resp := status(200)
	if answer != nil {
		if resp, err = answer(n, m); err != nil {
			return nil, err
		}
	}
	if resp == nil { // wait until the attempt times out
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	if resp.StatusCode/100 == 2 {
		rt.mu.Lock()
		again := rt.seen[m.id]
		if rt.seen != nil {
			rt.seen[m.id] = true
		}
		rt.mu.Unlock()
		if !again {
			rt.messages <- m
		}
	}
	resp.Request = r
	return resp, nil
}

// status returns a response. Headers are name, value, name, value…
func status(code int, header ...string) *http.Response {
	resp := &http.Response{StatusCode: code, Header: http.Header{}, Body: http.NoBody}
	for i := 0; i < len(header); i += 2 {
		resp.Header.Set(header[i], header[i+1])
	}
	return resp
}

// sent returns all attempts so far.
func (rt *runtime) sent() []received {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return append([]received(nil), rt.attempts...)
}

// next returns the next delivered message.
func (rt *runtime) next() received {
	rt.t.Helper()
	ctx, stop := context.WithTimeout(rt.t.Context(), rt.patience) // virtual time in a bubble
	defer stop()
	select {
	case m := <-rt.messages:
		return m
	case <-ctx.Done():
		rt.t.Fatal("no message came")
		panic("unreachable")
	}
}

// nextResult returns the text of the next message, which must be a result.
func (rt *runtime) nextResult() string {
	rt.t.Helper()
	m := rt.next()
	r, ok := m.Callback.(*agentproto.ToolResult)
	if !ok {
		rt.t.Fatalf("got %s, want a tool_result", m.body)
	}
	return r.String()
}

// post sends a request to the server.
func (rt *runtime) post(path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	rt.server.ServeHTTP(w, r)
	return w
}

// A with changes an invocation.
type with func(*agentproto.Invocation)

func user(id string) with        { return func(i *agentproto.Invocation) { i.UserID = &id } }
func thread(id string) with      { return func(i *agentproto.Invocation) { i.GroupID = id } }
func callback(url string) with   { return func(i *agentproto.Invocation) { i.CallbackURL = url } }
func callID(id string) with      { return func(i *agentproto.Invocation) { i.CallID = &id } }
func ancestors(a ...string) with { return func(i *agentproto.Invocation) { i.ThreadAncestors = a } }

// invoke posts an invocation and returns the status of the answer.
func (rt *runtime) invoke(operation, id, args string, change ...with) int {
	rt.t.Helper()
	inv := &agentproto.Invocation{
		Operation:   operation,
		Arguments:   []byte(args),
		ID:          id,
		GroupID:     "thread-1",
		CallbackURL: "https://runtime.example/rap/v1/cb/k1/" + id,
	}
	for _, c := range change {
		c(inv)
	}
	body, err := agentproto.Encode(inv)
	if err != nil {
		rt.t.Fatal(err)
	}
	return rt.post("/invoke", string(body)).Code
}

// call invokes a tool, and fails if the invocation is refused.
func (rt *runtime) call(operation, id, args string, change ...with) {
	rt.t.Helper()
	if code := rt.invoke(operation, id, args, change...); code != http.StatusOK {
		rt.t.Fatalf("invocation answered %d", code)
	}
}

// close closes the server and checks that no message is left.
func (rt *runtime) close() {
	rt.t.Helper()
	if err := rt.server.Close(rt.t.Context()); err != nil {
		rt.t.Error(err)
	}
	select {
	case m := <-rt.messages:
		rt.t.Errorf("a message nobody expected: %s", m.body)
	default:
	}
}

// A logBuffer is a log that a test can read.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

var errRefusedConnection = errors.New("connection refused")

func mustJSON(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

type none struct{}

type numbers struct {
	A int `json:"a" jsonschema:"the first number"`
	B int `json:"b"`
}

// addTools adds the tools that most tests use.
func addTools(s *toolserver.Server) {
	toolserver.Add(s, "add", "Adds.", func(_ context.Context, in numbers) (int, error) { return in.A + in.B, nil })
	toolserver.Add(s, "fail", "Fails.", func(context.Context, none) (string, error) { return "", errors.New("no luck") })
	toolserver.Add(s, "panic", "Panics.", func(context.Context, none) (string, error) { panic("canary-panic") })
	toolserver.Add(s, "wait", "Waits for its context.", func(ctx context.Context, _ none) (string, error) {
		<-ctx.Done()
		return "", context.Cause(ctx)
	})
}
