package serve_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/serve"
	"github.com/millrace/millrace/keyedsingleton"
)

// TestRequest checks the Request that a flow receives.
func TestRequest(t *testing.T) {
	var seen *serve.Request
	st := start(t, dataflow.Options{}, serve.Options{}, mapped(func(r *serve.Request) serve.Response {
		seen = r
		return serve.Response{}
	}))
	r := ask(t.Context(), "POST", "http://shop.example/a%20b?x=1&x=2", "body", "Idempotency-Key", "k", "X-A", "1", "X-A", "2")
	r.RemoteAddr = "192.0.2.1:1234"
	st.ServeHTTP(httptest.NewRecorder(), r)
	r.Header.Set("X-A", "changed afterwards")
	want := &serve.Request{
		ID: "k", Method: "POST", Host: "shop.example", Path: "/a b",
		Query:  map[string][]string{"x": {"1", "2"}},
		Header: http.Header{"Idempotency-Key": {"k"}, "X-A": {"1", "2"}},
		Body:   []byte("body"), RemoteAddr: "192.0.2.1:1234",
	}
	if !reflect.DeepEqual(seen, want) {
		t.Errorf("got  %+v\nwant %+v", seen, want)
	}
	st.do(t.Context(), "GET", "/", "")
	if seen.Body != nil || seen.PathValue("none") != "" {
		t.Errorf("%+v", seen)
	}
}

// TestBodies checks that a body is accepted up to the limit, whether its length is known or not.
func TestBodies(t *testing.T) {
	st := start(t, dataflow.Options{}, serve.Options{Body: 5}, mapped(echo))
	large := got{413, "the request's body is too large"}
	tests := []struct {
		body io.Reader
		want got
	}{
		{strings.NewReader("12345"), got{200, "POST / 12345"}},
		{strings.NewReader("123456"), large},
		{io.MultiReader(strings.NewReader("12345")), got{200, "POST / 12345"}},
		{io.MultiReader(strings.NewReader("123456")), large},
		{io.MultiReader(strings.NewReader("")), got{200, "POST / "}},
		{io.MultiReader(strings.NewReader("12"), broken{}), got{400, "the request's body could not be read"}},
	}
	for i, test := range tests {
		w := httptest.NewRecorder()
		st.ServeHTTP(w, httptest.NewRequest("POST", "/", test.body))
		if g := (got{w.Code, strings.TrimSuffix(w.Body.String(), "\n")}); g != test.want {
			t.Errorf("%d: %v, want %v", i, g, test.want)
		}
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// TestResponse checks what is sent for each response.
func TestResponse(t *testing.T) {
	text := "text/plain; charset=utf-8"
	tests := []struct {
		name     string
		response serve.Response
		status   int
		body     string
		header   http.Header
		log      string
	}{
		{"zero", serve.Response{}, 200, "", http.Header{"Content-Length": {"0"}}, ""},
		{"text", serve.Text(404, "<b>no"), 404, "<b>no", http.Header{"Content-Length": {"5"}, "Content-Type": {text}, "X-Content-Type-Options": {"nosniff"}}, ""},
		{"JSON", serve.Reply(201, []int{1}), 201, "[1]\n", http.Header{"Content-Length": {"4"}, "Content-Type": {"application/json"}}, ""},
		{"no JSON", serve.Reply(201, math.NaN()), 500, "the answer could not be encoded\n", http.Header{"Content-Length": {"32"}, "Content-Type": {text}, "X-Content-Type-Options": {"nosniff"}}, "encoding a float64"},
		{"headers", serve.Response{Header: http.Header{"x-a": {"1", "2"}, "Content-Length": {"77"}, "Transfer-Encoding": {"gzip"}}}, 200, "", http.Header{"Content-Length": {"0"}, "X-A": {"1", "2"}}, ""},
		{"no content", serve.Response{Status: 204, Body: []byte("x")}, 204, "", http.Header{}, ""},
		{"no status", serve.Response{Status: 101, Body: []byte("x")}, 500, "", http.Header{"Content-Length": {"0"}}, "101 is not the status of a response"},
	}
	for _, test := range tests {
		st := start(t, dataflow.Options{}, serve.Options{}, mapped(func(*serve.Request) serve.Response { return test.response }))
		w := httptest.NewRecorder()
		st.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		if w.Code != test.status || w.Body.String() != test.body || !reflect.DeepEqual(w.Header(), test.header) {
			t.Errorf("%s: %d %q %v, want %d %q %v", test.name, w.Code, w.Body, w.Header(), test.status, test.body, test.header)
		}
		if log := st.log.String(); (test.log == "") != (log == "") || !strings.Contains(log, test.log) {
			t.Errorf("%s: logged %q", test.name, log)
		}
	}
}

// TestHeaderIsCopied checks that middleware may add to the headers of a response without changing
// what a repeat receives.
func TestHeaderIsCopied(t *testing.T) {
	shared := http.Header{"X-A": append(make([]string, 0, 8), "1")}
	st := start(t, dataflow.Options{}, serve.Options{}, mapped(func(*serve.Request) serve.Response { return serve.Response{Header: shared} }))
	for range 2 {
		_, h := st.do(t.Context(), "GET", "/", "", "Idempotency-Key", "k")
		if got := h.Values("X-A"); len(got) != 1 {
			t.Errorf("%v", got)
		}
		h.Add("X-A", "2")
	}
	if extra := shared["X-A"][:2]; extra[1] != "" {
		t.Errorf("the response became %q", extra)
	}
}

// An order has a field that decodes itself.
type order struct {
	SKU string
	N   int
	Of  struct{ Deep []int }
	At  temperature
}

type temperature int

func (*temperature) UnmarshalJSON(b []byte) error {
	if string(b) == `"secret"` {
		return fmt.Errorf("inside")
	}
	return nil
}

// TestJSON checks which bodies a JSON route accepts.
func TestJSON(t *testing.T) {
	flow := dataflow.New()
	r := serve.Routes(dataflow.At[Server](flow), "shop", serve.Options{})
	orders, in := serve.JSON[order](r, "POST /orders")
	n := 0
	orders.Respond(keyedsingleton.Map(in, func(r *serve.RequestOf[order]) serve.Response {
		n++
		return serve.Reply(200, r.Value)
	}))
	if _, err := dataflow.Start(t.Context(), flow); err != nil {
		t.Fatal(err)
	}
	st := &stage{t: t, router: r}
	tests := []struct {
		body, contentType string
		want              got
	}{
		{`{"sku":"a","n":2,"more":1}`, "", got{200, `{"SKU":"a","N":2,"Of":{"Deep":null},"At":0}`}},
		{` null `, "application/json; charset=utf-8", got{200, `{"SKU":"","N":0,"Of":{"Deep":null},"At":0}`}},
		{`{}`, "application/merge-patch+json", got{200, `{"SKU":"","N":0,"Of":{"Deep":null},"At":0}`}},
		{`{}`, "text/plain", got{415, "the request's body must be JSON"}},
		{`{}`, "json;;", got{415, "the request's body must be JSON"}},
		{``, "", got{400, "the request's body is not valid JSON at byte 0"}},
		{`{"n":}`, "", got{400, "the request's body is not valid JSON at byte 6"}},
		{`{} {}`, "", got{400, "the request's body is not valid JSON at byte 4"}},
		{`{"n":"2"}`, "", got{400, "the request's body does not fit: the field N cannot be a string"}},
		{`{"of":{"deep":[1,true]}}`, "", got{400, "the request's body does not fit: the field Of.Deep cannot be a bool"}},
		{`[]`, "", got{400, "the request's body does not fit"}},
		{`{"at":"secret"}`, "", got{400, "the request's body does not fit"}},
	}
	let := 0
	for _, test := range tests {
		var headers []string
		if test.contentType != "" {
			headers = []string{"Content-Type", test.contentType}
		}
		g, _ := st.do(t.Context(), "POST", "/orders", test.body, headers...)
		if g.status == 200 {
			let++
		}
		if g != test.want {
			t.Errorf("%s %s: %v, want %v", test.contentType, test.body, g, test.want)
		}
	}
	if n != let {
		t.Errorf("the flow saw %d requests, want %d", n, let)
	}
}

// FuzzJSON checks that a body is accepted if and only if it is JSON that fits, and that no body fails the flow.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{"", "{}", `{"n":1}`, `{"n":1.5}`, "[", "\xff", `{"of":{"deep":[1e9]}}`} {
		f.Add(s)
	}
	flow := dataflow.New()
	r := serve.Routes(dataflow.At[Server](flow), "shop", serve.Options{})
	orders, in := serve.JSON[order](r, "POST /orders")
	orders.Respond(keyedsingleton.Map(in, func(r *serve.RequestOf[order]) serve.Response { return serve.Reply(200, r.Value) }))
	if _, err := dataflow.Start(f.Context(), flow); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, body string) {
		want := 200
		if json.Unmarshal([]byte(body), new(order)) != nil {
			want = 400
		}
		w := httptest.NewRecorder()
		r.ServeHTTP(w, httptest.NewRequest("POST", "/orders", strings.NewReader(body)))
		if w.Code != want {
			t.Errorf("%q: %d %s, want %d", body, w.Code, w.Body, want)
		}
	})
}
