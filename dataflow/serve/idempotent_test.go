package serve_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/serve"
)

const (
	unnamed = "the request must have an id in a header: see the documentation of the service"
	running = "the request is still being handled: repeat it later"
	other   = "the request's id was used before, for another request"
)

// eachWay runs a test in a bubble, with a bank in memory and with a durable one.
func eachWay(t *testing.T, opts serve.Options, test func(*testing.T, bank)) {
	t.Run("in memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			flow := dataflow.New()
			b := bankOf(opts)(flow)
			app, err := dataflow.Start(t.Context(), flow)
			if err != nil {
				t.Fatal(err)
			}
			test(t, b)
			if err := app.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	})
	t.Run("durable", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			app, err := durable.Start(context.Background(), bankOf(opts), durable.Options{
				Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}, Logger: quiet,
			})
			if err != nil {
				t.Fatal(err)
			}
			test(t, app.Ports)
			if err := app.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	})
}

// TestIdempotentStatus checks the answer to each of a sequence of requests.
func TestIdempotentStatus(t *testing.T) {
	const path, body = "/deposits", `{"amount": 1}`
	first := got{201, `{"amount":1,"number":1}`}
	tests := []struct {
		what               string
		method, path, body string
		headers            []string
		want               got
	}{
		{"no id", "POST", path, body, nil, got{400, unnamed}},
		{"an empty id", "POST", path, body, []string{"Idempotency-Key", ""}, got{400, unnamed}},
		{"a GET without an id", "GET", "/echo?x=1", "", nil, got{200, "1"}},
		{"a long id", "POST", path, body, []string{"Idempotency-Key", strings.Repeat("x", 129)}, got{400, "the request's id must be a single header of up to 128 printable ASCII characters"}},
		{"a large body", "POST", path, `{"amount": ` + strings.Repeat(" ", 100) + `1}`, []string{"Idempotency-Key", "large"}, got{413, "the request's body is too large"}},
		{"the first", "POST", path, body, []string{"Idempotency-Key", "k"}, first},
		{"a repeat", "POST", path, body, []string{"Idempotency-Key", "k"}, first},
		{"another body", "POST", path, `{"amount": 2}`, []string{"Idempotency-Key", "k"}, got{422, other}},
		{"another query", "POST", path + "?x", body, []string{"Idempotency-Key", "k"}, got{422, other}},
		{"another cookie", "POST", path, body, []string{"Idempotency-Key", "k", "Cookie", "c=1"}, got{422, other}},
		{"another caller", "POST", path, body, []string{"Idempotency-Key", "k", "Authorization", "ben"}, got{201, `{"amount":1,"number":2}`}},
		{"another route", "GET", "/echo?x=1", "", []string{"Idempotency-Key", "k"}, got{200, "1"}},
		{"a repeat after all that", "POST", path, body, []string{"Idempotency-Key", "k"}, first},
	}
	eachWay(t, serve.Options{Idempotent: &serve.Idempotency{}, Body: 100}, func(t *testing.T, b bank) {
		for _, test := range tests {
			if g, _ := b.call(t.Context(), test.method, test.path, test.body, test.headers...); g != test.want {
				t.Errorf("%s: got %v, want %v", test.what, g, test.want)
			}
		}
	})
}

// TestIdempotentCaller checks that options decide who the caller is and which methods need an id.
func TestIdempotentCaller(t *testing.T) {
	opts := serve.Options{Idempotent: &serve.Idempotency{
		Caller:   func(r *http.Request) string { return r.Header.Get("X-User") },
		Required: []string{"GET"},
	}}
	eachWay(t, opts, func(t *testing.T, b bank) {
		for _, step := range []struct {
			user, token string
			want        int
		}{{"ann", "1", 1}, {"ann", "2", 1}, {"ben", "2", 2}, {"ann", "", 1}} {
			g, h := b.call(t.Context(), "POST", "/deposits", "{}", "Idempotency-Key", "k", "X-User", step.user, "Authorization", step.token, "Cookie", step.token)
			if want := "/deposits/" + string(rune('0'+step.want)); g.status != 201 || h.Get("Location") != want {
				t.Errorf("%v: %v with %v", step, g, h)
			}
		}
		if g, _ := b.call(t.Context(), "GET", "/echo", ""); g != (got{400, unnamed}) {
			t.Error(g)
		}
		if g, _ := b.call(t.Context(), "POST", "/deposits", "{}"); g.status != 201 {
			t.Error(g)
		}
	})
}

// TestIdempotentRunning checks that a repeat of a request that is being handled is told to retry later.
func TestIdempotentRunning(t *testing.T) {
	eachWay(t, serve.Options{Idempotent: &serve.Idempotency{}, RetryAfter: 2 * time.Second}, func(t *testing.T, b bank) {
		post := func(ctx context.Context, key, body string) (got, http.Header) {
			return b.call(ctx, "POST", "/slow", body, "Idempotency-Key", key)
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if g, _ := post(t.Context(), "k", ""); g != (got{200, "done"}) {
				t.Error(g)
			}
		})
		wg.Go(func() { // the client does not wait
			ctx, cancel := context.WithTimeout(t.Context(), time.Second/4)
			defer cancel()
			if g, _ := post(ctx, "gone", ""); g.status != 503 {
				t.Error(g)
			}
		})
		time.Sleep(time.Second / 2)
		for _, key := range []string{"k", "gone"} {
			if g, h := post(t.Context(), key, ""); g != (got{409, running}) || h.Get("Retry-After") != "2" {
				t.Errorf("%s: %v with %v", key, g, h)
			}
			if g, _ := post(t.Context(), key, "x"); g != (got{422, other}) {
				t.Errorf("%s: %v", key, g)
			}
		}
		wg.Wait()
		time.Sleep(time.Second)
		for _, key := range []string{"k", "gone"} {
			if g, _ := post(t.Context(), key, ""); g != (got{200, "done"}) {
				t.Errorf("%s: %v", key, g)
			}
		}
	})
}

// TestIdempotentTogether sends many requests at once with one id. One is handled, and those with
// other content are refused.
func TestIdempotentTogether(t *testing.T) {
	eachWay(t, serve.Options{Idempotent: &serve.Idempotency{}}, func(t *testing.T, b bank) {
		var mu sync.Mutex
		seen := map[got]int{}
		var wg sync.WaitGroup
		for i := range 60 {
			wg.Go(func() {
				body := `{"amount": 1}`
				if i%3 == 0 {
					body = `{"amount": 2}`
				}
				for {
					g, _ := b.call(t.Context(), "POST", "/deposits", body, "Idempotency-Key", "k")
					if g.status == 409 {
						time.Sleep(time.Second)
						continue
					}
					mu.Lock()
					seen[g]++
					mu.Unlock()
					return
				}
			})
		}
		wg.Wait()
		one, two := seen[got{201, `{"amount":1,"number":1}`}], seen[got{201, `{"amount":2,"number":1}`}]
		if seen[got{422, other}]+one+two != 60 || one != 40 && one != 0 || two != 20 && two != 0 || one+two == 0 {
			t.Errorf("the answers are %v", seen)
		}
	})
}
