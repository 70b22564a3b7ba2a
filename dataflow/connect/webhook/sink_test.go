package webhook_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/connecttest"
	"github.com/millrace/millrace/dataflow/connect/webhook"
)

func TestKit(t *testing.T) {
	for _, parallel := range []int{0, 8} {
		t.Run(fmt.Sprint("parallel ", parallel), func(t *testing.T) {
			connecttest.Sink(t, func(t *testing.T) connecttest.Target[int, connect.Idempotent] {
				r := startReceiver(t)
				return connecttest.Target[int, connect.Idempotent]{
					Sink:    webhook.Sink[int]{URL: r.URL, Parallel: parallel},
					Element: func(n uint64) int { return int(n) },
					Read:    func(*testing.T) []int { return r.got() },
				}
			})
		})
	}
}

// Case 50: the receiver answers 500 and 503 before it accepts an element. It refuses another
// element.
func TestTriedAgain(t *testing.T) {
	r := startReceiver(t)
	answers := []int{500, 503, 0, 0, 400, 0}
	var bodies []string
	r.answer = func(w http.ResponseWriter, req *http.Request, body []byte) bool {
		bodies = append(bodies, req.Header.Get("Idempotency-Key")+" "+string(body))
		status := answers[0]
		answers = answers[1:]
		if status == 0 {
			return false
		}
		w.WriteHeader(status)
		fmt.Fprint(w, "not now")
		return true
	}
	var refused []webhook.Refusal[int]
	w := open(t, webhook.Sink[int]{URL: r.URL, Refused: func(_ context.Context, x webhook.Refusal[int]) error {
		refused = append(refused, x)
		return nil
	}})
	if _, err := w.Write(t.Context(), 7, []int{70, 80, 90, 100}); err != nil {
		t.Fatal(err)
	}
	equal(t, "effects", r.got(), []int{70, 80, 100})
	want := []string{"shop/orders/3/7 70", "shop/orders/3/7 70", "shop/orders/3/7 70", "shop/orders/3/8 80", "shop/orders/3/9 90", "shop/orders/3/10 100"}
	if !slices.Equal(bodies, want) {
		t.Errorf("the requests are %q, want %q", bodies, want)
	}
	if want := (webhook.Refusal[int]{Lane: lane, Number: 9, Element: 90, Status: 400, Answer: "not now"}); len(refused) != 1 || refused[0] != want {
		t.Errorf("refused is %+v, want %+v", refused, want)
	}
}

func TestStatuses(t *testing.T) {
	r := startReceiver(t)
	var status int
	var header http.Header
	r.answer = func(w http.ResponseWriter, req *http.Request, body []byte) bool {
		if status == 0 {
			return false
		}
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		status = 0 // the next request succeeds
		return true
	}
	ended := errors.New("refused")
	w := open(t, webhook.Sink[int]{URL: r.URL, Refused: func(context.Context, webhook.Refusal[int]) error { return ended }})
	for i, c := range []struct {
		status int
		header http.Header
		again  bool
	}{
		{200, nil, false}, {204, nil, false},
		{408, nil, true}, {425, nil, true}, {429, nil, true}, {500, nil, true}, {502, nil, true}, {503, nil, true}, {504, nil, true},
		{409, http.Header{"Retry-After": {"1"}}, true},
		{400, nil, false}, {401, nil, false}, {404, nil, false}, {409, nil, false}, {410, nil, false}, {413, nil, false}, {422, nil, false},
	} {
		before := len(r.posted())
		status, header = c.status, c.header
		_, err := w.Write(t.Context(), uint64(i+1), []int{i})
		n := len(r.posted()) - before
		if c.again && (n != 2 || err != nil) || !c.again && n != 1 {
			t.Errorf("%d %v: %d requests (%v)", c.status, c.header, n, err)
		}
		if c.status >= 400 && !c.again && (!errors.Is(err, ended) || connect.Passes(err)) {
			t.Errorf("%d: the error is %v, want that of Refused", c.status, err)
		}
	}
}

// TestRetryAfter checks that a sink waits for as long as the receiver asks.
func TestRetryAfter(t *testing.T) {
	r := startReceiver(t)
	r.answer = func(w http.ResponseWriter, req *http.Request, body []byte) bool {
		if len(r.posted()) > 1 {
			return false
		}
		w.Header().Set("Retry-After", "2")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	if _, err := open(t, webhook.Sink[int]{URL: r.URL}).Write(t.Context(), 1, []int{1}); err != nil {
		t.Fatal(err)
	}
	at := r.posted()
	if len(at) != 2 || at[1].Sub(at[0]) < 1900*time.Millisecond {
		t.Errorf("the requests were at %v, want two seconds between them", at)
	}
}

// TestRetryAfterPatience checks that the error of a receiver that asks to wait for longer than Patience is returned at once, and
// that it passes. The drain then waits.
func TestRetryAfterPatience(t *testing.T) {
	r := startReceiver(t)
	r.answer = func(w http.ResponseWriter, req *http.Request, body []byte) bool {
		w.Header().Set("Retry-After", "3600")
		w.WriteHeader(http.StatusTooManyRequests)
		return true
	}
	if _, err := open(t, webhook.Sink[int]{URL: r.URL}).Write(t.Context(), 1, []int{1}); !connect.Passes(err) || !strings.Contains(err.Error(), "answers 429") {
		t.Errorf("the error is %v, want one that passes", err)
	}
	if n := len(r.posted()); n != 1 {
		t.Errorf("there were %d requests, want 1", n)
	}
}

// TestNoAnswer checks that an element is sent again when there is no answer. After a while the
// error is returned, and it passes.
func TestNoAnswer(t *testing.T) {
	r := startReceiver(t)
	var broken atomic.Int32
	r.answer = func(w http.ResponseWriter, req *http.Request, body []byte) bool {
		if broken.Add(-1) < 0 {
			return false
		}
		panic(http.ErrAbortHandler)
	}
	broken.Store(3)
	if _, err := open(t, webhook.Sink[int]{URL: r.URL}).Write(t.Context(), 1, []int{1, 2}); err != nil {
		t.Fatal(err)
	}
	equal(t, "effects", r.got(), []int{1, 2})

	broken.Store(1 << 30)
	if _, err := open(t, webhook.Sink[int]{URL: r.URL, Patience: time.Nanosecond}).Write(t.Context(), 3, []int{3}); !connect.Passes(err) {
		t.Errorf("the error is %v, want one that passes", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("stopped")
	before := len(r.posted())
	go func() {
		for len(r.posted()) == before {
		}
		cancel(stopped)
	}()
	if _, err := open(t, webhook.Sink[int]{URL: r.URL, Patience: time.Hour}).Write(ctx, 3, []int{3}); !errors.Is(err, stopped) {
		t.Errorf("the error is %v, want that of the context", err)
	}
	r.Close()
	if _, err := open(t, webhook.Sink[int]{URL: r.URL, Patience: time.Nanosecond}).Write(t.Context(), 3, []int{3}); !connect.Passes(err) {
		t.Errorf("of an endpoint that is gone, the error is %v, want one that passes", err)
	}
}

// TestTimeout checks that a sink gives up on a receiver that does not answer within the timeout of
// a request.
func TestTimeout(t *testing.T) {
	r := startReceiver(t)
	var first atomic.Bool
	first.Store(true)
	r.answer = func(w http.ResponseWriter, req *http.Request, body []byte) bool {
		if first.Swap(false) {
			<-req.Context().Done()
			return true
		}
		return false
	}
	if _, err := open(t, webhook.Sink[int]{URL: r.URL, Timeout: 200 * time.Millisecond, Patience: time.Hour}).Write(t.Context(), 1, []int{1}); err != nil {
		t.Fatal(err)
	}
	if n := len(r.posted()); n < 2 {
		t.Errorf("there were %d requests", n)
	}
	equal(t, "effects", r.got(), []int{1})
}

func TestSignatures(t *testing.T) {
	secret := func(b byte) string {
		return "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(rune(b)), 32)))
	}
	r := startReceiver(t)
	var errs []error
	r.answer = func(w http.ResponseWriter, req *http.Request, body []byte) bool {
		for _, s := range []string{secret('a'), secret('b')} {
			v, err := standardwebhooks.NewWebhook(s)
			if err != nil {
				t.Error(err)
			}
			errs = append(errs, v.Verify(body, req.Header))
		}
		if id := req.Header.Get("Webhook-Id"); id != req.Header.Get("Idempotency-Key") || strings.Contains(id, ".") {
			t.Errorf("the id of the message is %q", id)
		}
		return false
	}
	for _, c := range []struct {
		secrets []string
		known   []bool
	}{{[]string{secret('a')}, []bool{true, false}}, {[]string{secret('b'), secret('a')}, []bool{true, true}}} {
		errs = nil
		s := webhook.Sink[int]{URL: r.URL, Secrets: c.secrets}
		w, _, err := s.Open(t.Context(), connect.Lane{Flow: "a.b", Output: "c/d"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(t.Context(), 1, []int{1}); err != nil {
			t.Fatal(err)
		}
		w.Close()
		for i, known := range c.known {
			if (errs[i] == nil) != known {
				t.Errorf("with %d secrets, the one with number %d: %v", len(c.secrets), i, errs[i])
			}
		}
	}
}

// TestKeys checks that no two elements have the same key.
func TestKeys(t *testing.T) {
	r := startReceiver(t)
	n := 0
	for _, l := range []connect.Lane{
		{Flow: "a/b", Output: "c"}, {Flow: "a", Output: "b/c"}, {Flow: "a", Output: "c", Partition: 1}, {Flow: "a", Output: "c", Partition: 11},
		{Flow: "a%2Fb", Output: "c"}, {Flow: "ü\r\nX: y", Output: "c"}, {Flow: "a.b", Output: "c"}, {Flow: "a%2Eb", Output: "c"},
	} {
		for _, first := range []uint64{1, 11} {
			w, _, err := webhook.Sink[int]{URL: r.URL}.Open(t.Context(), l)
			if err != nil {
				t.Fatal(err)
			}
			n++
			if _, err := w.Write(t.Context(), first, []int{n}); err != nil {
				t.Fatal(err)
			}
			w.Close()
		}
	}
	if got := r.got(); len(got) != n {
		t.Errorf("%d elements had an effect, want %d", len(got), n)
	}
}

func TestParallel(t *testing.T) {
	r := startReceiver(t)
	const n = 4
	var together sync.WaitGroup
	together.Add(n)
	var now, most atomic.Int32
	r.answer = func(w http.ResponseWriter, req *http.Request, body []byte) bool {
		if k := now.Add(1); k > most.Load() {
			most.Store(k)
		}
		defer now.Add(-1)
		if len(r.posted()) <= n {
			together.Done()
			together.Wait() // for the others
		}
		return false
	}
	var xs []int
	for i := range 40 {
		xs = append(xs, i)
	}
	if _, err := open(t, webhook.Sink[int]{URL: r.URL, Parallel: n}).Write(t.Context(), 1, xs); err != nil {
		t.Fatal(err)
	}
	got := r.got()
	slices.Sort(got)
	equal(t, "effects", got, xs)
	if most.Load() > n {
		t.Errorf("%d requests were under way at a time, want %d", most.Load(), n)
	}
}

// TestMaxBody checks that a body that is too long is refused locally, and that no part of it is
// sent.
func TestMaxBody(t *testing.T) {
	r := startReceiver(t)
	var refused []uint64
	s := webhook.Sink[int]{URL: r.URL, MaxBody: 2, Refused: func(_ context.Context, x webhook.Refusal[int]) error {
		refused = append(refused, x.Number)
		return nil
	}}
	if _, err := open(t, s).Write(t.Context(), 1, []int{10, 100, 20}); err != nil {
		t.Fatal(err)
	}
	equal(t, "effects", r.got(), []int{10, 20})
	if !slices.Equal(refused, []uint64{2}) || len(r.posted()) != 2 {
		t.Errorf("refused are %v, and %d requests came", refused, len(r.posted()))
	}
	s.Refused = nil
	if _, err := open(t, s).Write(t.Context(), 1, []int{100}); err == nil || connect.Passes(err) {
		t.Errorf("the error is %v, want one that stays", err)
	}
	s.Encode = func(uint64, int) ([]byte, error) { return nil, errors.New("no") }
	if _, err := open(t, s).Write(t.Context(), 1, []int{1}); err == nil || connect.Passes(err) {
		t.Errorf("the error is %v, want one that stays", err)
	}
}

// TestLongAnswers checks that an endless body of a successful answer is not read to its end.
func TestLongAnswers(t *testing.T) {
	r := startReceiver(t)
	r.answer = func(w http.ResponseWriter, req *http.Request, body []byte) bool {
		chunk := make([]byte, 32<<10)
		for {
			if _, err := w.Write(chunk); err != nil {
				return true
			}
		}
	}
	if _, err := open(t, webhook.Sink[int]{URL: r.URL, Timeout: time.Hour}).Write(t.Context(), 1, []int{1}); err != nil {
		t.Fatal(err)
	}
}

// TestPanics checks that a panic of a function of the program is the error of the write, and does not end the process.
func TestPanics(t *testing.T) {
	r := startReceiver(t)
	for name, s := range map[string]webhook.Sink[int]{
		"encode":  {URL: r.URL, Encode: func(uint64, int) ([]byte, error) { panic("no body") }},
		"refused": {URL: r.URL, MaxBody: 1, Refused: func(context.Context, webhook.Refusal[int]) error { panic("no body") }},
	} {
		_, err := open(t, s).Write(t.Context(), 7, []int{70, 80})
		if err == nil || connect.Passes(err) || !strings.Contains(err.Error(), "element 7: delivering it panicked: no body\n") {
			t.Errorf("%s: the error is %v", name, err)
		}
	}
}
