package serve_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/serve"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

// TestLoopback has many clients over TCP make requests of their own and some shared ones. Each gets
// its answer, and a shared request is handled once.
func TestLoopback(t *testing.T) {
	const clients, each = 32, 50
	var done atomic.Int32
	flow := dataflow.New()
	at := dataflow.At[Server](flow)
	router := serve.Routes(at, "shop", serve.Options{Patience: 1e10})
	orders, placed := serve.JSON[struct{ N int }](router, "POST /orders/{id}")
	items, asked := router.Handle("GET /items/{path...}")

	// Every answer depends on the number of orders at that moment, so the program needs a slice, as services do.
	tick := slice.At(at)
	count := slice.Snapshot(tick, keyedsingleton.KeyCount(placed), "the number is of the moment")
	fresh := slice.BatchEntries(tick, placed, "an answer is of the moment")
	orders.Respond(slice.EmitEntries(keyedsingleton.Map(keyedsingleton.CrossSingleton(fresh, count),
		func(p dataflow.Pair[*serve.RequestOf[struct{ N int }], int]) serve.Response {
			done.Add(1)
			if p.Second < 1 {
				return serve.Text(http.StatusInternalServerError, "an order is not counted")
			}
			return serve.Reply(http.StatusCreated, map[string]any{"id": p.First.PathValue("id"), "twice": 2 * p.First.Value.N})
		})))
	items.Respond(keyedsingleton.Map(asked, func(r *serve.Request) serve.Response {
		return serve.Text(http.StatusOK, r.PathValue("path")+" for "+r.Query.Get("who"))
	}))
	app, err := dataflow.Start(t.Context(), flow)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(router)
	defer server.Close()

	call := func(method, path, body, id string) string {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return ""
		}
		if id != "" {
			req.Header.Set("Idempotency-Key", id)
		}
		resp, err := server.Client().Do(req)
		if err != nil {
			t.Error(err)
			return ""
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Error(err)
		}
		return fmt.Sprint(resp.StatusCode, " ", resp.Header.Get("Content-Type"), " ", strings.TrimSpace(string(b)))
	}
	var wg sync.WaitGroup
	for c := range clients {
		wg.Go(func() {
			for i := range each {
				if got, want := call("POST", fmt.Sprintf("/orders/c%d", c), fmt.Sprintf(`{"n":%d}`, i), ""), fmt.Sprintf(`201 application/json {"id":"c%d","twice":%d}`, c, 2*i); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if got, want := call("POST", "/orders/all", fmt.Sprintf(`{"n":%d}`, i), fmt.Sprint("all ", i)), fmt.Sprintf(`201 application/json {"id":"all","twice":%d}`, 2*i); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
				if got, want := call("GET", fmt.Sprintf("/items/a/%d?who=c%d", i, c), "", ""), fmt.Sprintf("200 text/plain; charset=utf-8 a/%d for c%d", i, c); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			}
		})
	}
	wg.Wait()
	if got := done.Load(); got != clients*each+each {
		t.Errorf("%d orders were done, want %d", got, clients*each+each)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if h := router.Held(); h != (serve.Held{Known: each, Retained: each}) {
		t.Errorf("held: %+v", h)
	}
}

// TestRouting checks which collection receives a request.
func TestRouting(t *testing.T) {
	say := func(who string) func(*serve.Request) serve.Response {
		return func(r *serve.Request) serve.Response {
			return serve.Text(http.StatusOK, fmt.Sprint(who, " ", r.Pattern, " ", r.PathValues))
		}
	}
	flow := dataflow.New()
	at := dataflow.At[Server](flow)
	all, rest := serve.HTTP(at, "all", serve.Options{})
	all.Respond(keyedsingleton.Map(rest, say("rest")))
	only := serve.Routes(at, "only", serve.Options{})
	for _, r := range []*router{all, only} {
		for _, pattern := range []string{"GET /a/{x}", "/b/{x}/{y...}", "/c/{$}"} {
			route, in := r.Handle(pattern)
			route.Respond(keyedsingleton.Map(in, say("route")))
		}
	}
	plain, in := serve.HTTP(at, "plain", serve.Options{})
	plain.Respond(keyedsingleton.Map(in, say("plain")))
	outer := http.NewServeMux()
	outer.Handle("PUT /p/{q}", plain)
	outer.Handle("/", plain)
	if _, err := dataflow.Start(t.Context(), flow); err != nil {
		t.Fatal(err)
	}

	tests := []struct {
		handler        http.Handler
		method, target string
		status         int
		body           string
	}{
		{all, "GET", "/a/1", 200, "route GET /a/{x} map[x:1]"},
		{all, "POST", "/a/1", 200, "rest  map[]"},
		{all, "POST", "/b/1/2/3", 200, "route /b/{x}/{y...} map[x:1 y:2/3]"},
		{all, "GET", "/c/", 200, "route /c/{$} map[]"},
		{all, "GET", "/c/d", 200, "rest  map[]"},
		{all, "GET", "/", 200, "rest  map[]"},
		{only, "GET", "/a/1", 200, "route GET /a/{x} map[x:1]"},
		{only, "HEAD", "/a/1", 200, "route GET /a/{x} map[x:1]"},
		{only, "POST", "/a/1", 405, "Method Not Allowed"},
		{only, "GET", "/c/d", 404, "404 page not found"},
		{outer, "PUT", "/p/%C3%A4%2Fb", 200, "plain PUT /p/{q} map[q:ä/b]"},
		{outer, "GET", "/p/1", 200, "plain / map[]"},
		{plain, "GET", "/p/1", 200, "plain  map[]"},
	}
	for _, test := range tests {
		w := httptest.NewRecorder()
		test.handler.ServeHTTP(w, httptest.NewRequest(test.method, test.target, nil))
		if got := strings.TrimSpace(w.Body.String()); w.Code != test.status || got != test.body {
			t.Errorf("%s %s: %d %q, want %d %q", test.method, test.target, w.Code, got, test.status, test.body)
		}
	}
}

// TestMisuse checks the mistakes that the compiler cannot refuse.
func TestMisuse(t *testing.T) {
	build := func() (Server, *router, requests) {
		at := dataflow.At[Server](dataflow.New())
		r, in := serve.HTTP(at, "shop", serve.Options{})
		return at, r, in
	}
	tests := []struct {
		name string
		prog func()
		want string
	}{
		{"responses twice", func() {
			_, r, in := build()
			r.Respond(keyedsingleton.Map(in, echo))
			r.Respond(keyedsingleton.Map(in, echo))
		}, "serve: Respond shop: the requests have responses already"},
		{"responses after the start", func() {
			flow := dataflow.New()
			r, in := serve.HTTP(dataflow.At[Server](flow), "shop", serve.Options{})
			out := keyedsingleton.Map(in, echo)
			_, _ = dataflow.Start(t.Context(), flow)
			r.Respond(out)
		}, "serve: Respond shop: the flow has been started, nothing can be added to it"},
		{"responses of another flow", func() {
			_, r, _ := build()
			_, _, in := build()
			r.Respond(keyedsingleton.Map(in, echo))
		}, "serve: Respond shop: the responses live at Server of another flow"},
		{"responses of routes", func() {
			at, _, in := build()
			serve.Routes(at, "routes", serve.Options{}).Respond(keyedsingleton.Map(in, echo))
		}, "serve: Respond routes: a router made by Routes has no requests of its own: its routes have"},
		{"a request before the responses", func() {
			_, r, _ := build()
			r.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
		}, "serve: HTTP shop: nobody answers the requests: call Respond before the flow is started"},
		{"a pattern that is none", func() {
			_, r, _ := build()
			r.Handle("GET")
		}, `serve: Handle shop GET: parsing "GET": at offset 0: host/path missing /`},
		{"no pattern", func() {
			_, r, _ := build()
			r.Handle("")
		}, `serve: Handle shop : http: invalid pattern`},
		{"a negative option", func() {
			at, _, _ := build()
			serve.Routes(at, "routes", serve.Options{Pending: -1})
		}, "serve: Routes routes: Options.Pending is -1: it must not be negative"},
		{"a header that is none", func() {
			at, _, _ := build()
			serve.HTTP(at, "shop", serve.Options{Header: "a b"})
		}, `serve: HTTP shop: Options.Header is "a b": that is not the name of a header`},
		{"inside a slice", func() {
			at, _, _ := build()
			serve.HTTP(slice.At(at), "shop", serve.Options{})
		}, "serve: HTTP shop: an input comes from outside and cannot be inside the slice made at"},
		{"nowhere", func() {
			serve.HTTP(Server{}, "shop", serve.Options{})
		}, "serve: HTTP shop: the location is a zero value: make it with dataflow.At"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.HasPrefix(got, test.want) {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
			}()
			test.prog()
		})
	}
}

// TestNoResponses checks that a flow that answers no requests ends at the start with an error that
// says so.
func TestNoResponses(t *testing.T) {
	for _, build := range []func(Server){
		func(at Server) { serve.HTTP(at, "shop", serve.Options{}) },
		func(at Server) {
			r, in := serve.HTTP(at, "shop", serve.Options{})
			r.Respond(keyedsingleton.Map(in, echo))
			r.Handle("GET /a")
		},
	} {
		flow := dataflow.New()
		build(dataflow.At[Server](flow))
		app, err := dataflow.Start(t.Context(), flow)
		if err != nil {
			t.Fatal(err)
		}
		if err := app.Wait(); err == nil || !strings.Contains(err.Error(), ": nobody answers the requests: call Respond before the flow is started") {
			t.Errorf("the flow ended with %v", err)
		}
	}
}
