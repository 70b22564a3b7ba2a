package serve_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/serve"
)

const used = "the request's id was used before, and its answer is not kept any more"

// counted answers with the number of calls so far, after a delay.
func counted(delay time.Duration) func(requests) responses {
	var mu sync.Mutex
	n := 0
	return called(func(context.Context, *serve.Request) serve.Response {
		time.Sleep(delay)
		mu.Lock()
		defer mu.Unlock()
		n++
		return serve.Text(http.StatusOK, fmt.Sprint("answer ", n))
	})
}

// TestRepeat checks what counts as a repeat: a request with the same content, whatever its header
// order and other details.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := start(t, dataflow.Options{}, serve.Options{}, counted(0))
		first, _ := st.do(t.Context(), "POST", "/a?x=1", "body", "Idempotency-Key", "k", "Authorization", "me")
		if want := (got{200, "answer 1"}); first != want {
			t.Fatalf("got %v, want %v", first, want)
		}
		same, other := got{200, "answer 1"}, got{422, "the request's id was used before, for another request"}
		tests := []struct {
			method, target, body string
			headers              []string
			want                 got
		}{
			{"POST", "/a?x=1", "body", []string{"Authorization", "me"}, same},
			{"POST", "/a?x=1", "body", []string{"Authorization", "me", "User-Agent", "other"}, same},
			{"PUT", "/a?x=1", "body", []string{"Authorization", "me"}, other},
			{"POST", "/b?x=1", "body", []string{"Authorization", "me"}, other},
			{"POST", "/a?x=2", "body", []string{"Authorization", "me"}, other},
			{"POST", "/a?x=1", "bod", []string{"Authorization", "me"}, other},
			{"POST", "/a?x=1", "", []string{"Authorization", "me"}, other},
			{"POST", "/a?x=1", "body", []string{"Authorization", "you"}, other},
			{"POST", "/a?x=1", "body", nil, other},
			{"POST", "/a?x=1", "body", []string{"Authorization", "me", "Cookie", "c=1"}, other},
			{"POST", "http://elsewhere.example/a?x=1", "body", []string{"Authorization", "me"}, other},
		}
		for _, test := range tests {
			g, _ := st.do(t.Context(), test.method, test.target, test.body, append(test.headers, "Idempotency-Key", "k")...)
			if g != test.want {
				t.Errorf("%s %s %q %q: got %v, want %v", test.method, test.target, test.body, test.headers, g, test.want)
			}
		}
		if g, _ := st.do(t.Context(), "POST", "/a?x=1", "body"); g != (got{200, "answer 2"}) {
			t.Errorf("without an id it is %v, want another answer", g)
		}
	})
}

// TestRepeatWaits checks that repeats of a pending request wait for its answer. A repeat with too
// short a timeout is told that the request is pending.
func TestRepeatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := start(t, dataflow.Options{}, serve.Options{}, counted(time.Second))
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				if g := st.post("k", "x"); g != (got{200, "answer 1"}) {
					t.Error(g)
				}
			})
		}
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
			defer cancel()
			if g, _ := st.do(ctx, "POST", "/", "x", "Idempotency-Key", "k"); g.status != 503 {
				t.Error(g)
			}
		})
		wg.Wait()
	})
}

// TestForgotten checks that answers are kept for a limited time and up to a limited number, and
// that a handled request is not handled again afterwards.
func TestForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := start(t, dataflow.Options{}, serve.Options{Retain: time.Minute, Answers: 3}, counted(0))
		for _, id := range []string{"a", "b", "c", "d"} {
			st.post(id, "")
		}
		steps := []struct {
			id   string
			want got
		}{
			{"a", got{409, used}},
			{"b", got{200, "answer 2"}},
			{"d", got{200, "answer 4"}},
		}
		for _, s := range steps {
			if g := st.post(s.id, ""); g != s.want {
				t.Errorf("%s: %v, want %v", s.id, g, s.want)
			}
		}
		time.Sleep(time.Minute)
		if g := st.post("d", ""); g != (got{409, used}) {
			t.Error(g)
		}
		if h := st.Held(); h != (serve.Held{Known: 4, Used: 4}) {
			t.Errorf("held: %+v", h)
		}
	})
}

// TestMadeIDs checks that a request without an id of its own is forgotten with its answer, and that
// its generated id cannot be used for another request.
func TestMadeIDs(t *testing.T) {
	var ids []string
	st := start(t, dataflow.Options{}, serve.Options{}, mapped(func(r *serve.Request) serve.Response {
		ids = append(ids, string(r.ID))
		return serve.Response{}
	}))
	for range 100 {
		if g, h := st.do(t.Context(), "GET", "/", ""); g.status != 200 || h.Get("Idempotency-Key") != "" {
			t.Fatal(g, h)
		}
	}
	if h := st.Held(); h != (serve.Held{}) {
		t.Errorf("held: %+v", h)
	}
	for i, id := range ids {
		if i > 0 && ids[i-1] >= id {
			t.Errorf("%s is not after %s", id, ids[i-1])
		}
		if g := st.post(id, ""); g != (got{409, used}) {
			t.Errorf("%s is %v, want it to be used", id, g)
		}
	}
}

// TestIDs checks which ids a client may choose, and that a router recognizes only the ids that it made.
func TestIDs(t *testing.T) {
	st := start(t, dataflow.Options{}, serve.Options{Header: "x-request-name"}, mapped(echo))
	malformed := got{400, "the request's id must be a single header of up to 128 printable ASCII characters"}
	tests := []struct {
		ids  []string
		want int
	}{
		{nil, 200},
		{[]string{""}, 200},
		{[]string{"a"}, 200},
		{[]string{`"8e03978e 40d5"`}, 200},
		{[]string{strings.Repeat("x", 128)}, 200},
		{[]string{strings.Repeat("x", 129)}, 400},
		{[]string{"a\tb"}, 400},
		{[]string{"ä"}, 400},
		{[]string{"a", "a"}, 400},
	}
	for _, test := range tests {
		var headers []string
		for _, id := range test.ids {
			headers = append(headers, "X-Request-Name", id)
		}
		g, _ := st.do(t.Context(), "GET", "/", "", headers...)
		if g.status != test.want || g.status == 400 && g != malformed {
			t.Errorf("%q: %v, want %d", test.ids, g, test.want)
		}
	}

	next, made := serve.IDs()
	older := next()
	_, later := serve.IDs()
	if !made(older) || later(older) || made(older[1:]) || made("v"+older[1:]) {
		t.Error("what was made is not told from what was not")
	}
}

// TestOtherProcess checks that an id made by another process is treated like any other id.
func TestOtherProcess(t *testing.T) {
	next, _ := serve.IDs()
	id := string(next())
	st := start(t, dataflow.Options{}, serve.Options{}, counted(0))
	for range 2 {
		if g := st.post(id, ""); g != (got{200, "answer 1"}) {
			t.Error(g)
		}
	}
}
