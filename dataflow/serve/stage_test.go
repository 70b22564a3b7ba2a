package serve_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/serve"
	"github.com/millrace/millrace/keyedsingleton"
)

type Server struct{ dataflow.Process }

type (
	requests  = dataflow.KeyedSingleton[serve.RequestID, *serve.Request, Server, bounds.BoundedValue]
	responses = dataflow.KeyedSingleton[serve.RequestID, serve.Response, Server, bounds.BoundedValue]
	router    = serve.Router[Server]
)

// A stage is a router with a running flow, and its log.
type stage struct {
	*router
	t   *testing.T
	app *dataflow.App
	log *bytes.Buffer
}

// start runs a flow with one router, which answers requests with the function answer.
func start(t *testing.T, flow dataflow.Options, opts serve.Options, answer func(requests) responses) *stage {
	t.Helper()
	st := &stage{t: t, log: new(bytes.Buffer)}
	opts.Log = slog.New(slog.NewTextHandler(st.log, nil))
	f := dataflow.NewWithOptions(flow)
	r, in := serve.HTTP(dataflow.At[Server](f), "test", opts)
	r.Respond(answer(in))
	st.router = r
	app, err := dataflow.Start(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	st.app = app
	return st
}

// mapped answers each request with a function.
func mapped(f func(*serve.Request) serve.Response) func(requests) responses {
	return func(in requests) responses { return keyedsingleton.Map(in, f) }
}

// called answers each request with a function that may take time.
func called(f func(context.Context, *serve.Request) serve.Response) func(requests) responses {
	return func(in requests) responses {
		return keyedsingleton.MapAsync(in, f, keyedsingleton.AsyncOptions{Concurrency: 1000})
	}
}

// echo answers with the method, path and body of the request.
func echo(r *serve.Request) serve.Response {
	return serve.Text(http.StatusOK, r.Method+" "+r.Path+" "+string(r.Body))
}

// A got is an answer in the form that tests compare.
type got struct {
	status int
	body   string
}

// do serves a request in this goroutine. The headers are given in pairs.
func (st *stage) do(ctx context.Context, method, target, body string, headers ...string) (got, http.Header) {
	st.t.Helper()
	w := httptest.NewRecorder()
	st.ServeHTTP(w, ask(ctx, method, target, body, headers...))
	return got{w.Code, strings.TrimSuffix(w.Body.String(), "\n")}, w.Header()
}

func ask(ctx context.Context, method, target, body string, headers ...string) *http.Request {
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	r := httptest.NewRequestWithContext(ctx, method, target, content)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// post serves a POST request with an id and no other header.
func (st *stage) post(id, body string) got {
	st.t.Helper()
	g, _ := st.do(st.t.Context(), "POST", "/", body, "Idempotency-Key", id)
	return g
}
