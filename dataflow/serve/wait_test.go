package serve_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/serve"
	"github.com/millrace/millrace/keyedsingleton"
)

// slow answers after the duration in the request's body, unless the flow ends first.
func slow(ctx context.Context, r *serve.Request) serve.Response {
	d, err := time.ParseDuration(string(r.Body))
	if err != nil {
		panic(err)
	}
	select {
	case <-time.After(d):
		return serve.Text(http.StatusOK, "after "+string(r.Body))
	case <-ctx.Done():
		return serve.Text(http.StatusOK, "never")
	}
}

// TestTimeout checks that a request waits until its timeout and is then told the id for a repeat.
// The repeat waits too, or gets the answer that has arrived meanwhile.
func TestTimeout(t *testing.T) {
	for _, named := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			st := start(t, dataflow.Options{}, serve.Options{RetryAfter: 1500 * time.Millisecond}, called(slow))
			var headers []string
			if named {
				headers = []string{"Idempotency-Key", "mine"}
			}
			for i, want := range []time.Duration{30 * time.Second, 30 * time.Second, 5 * time.Second, 0} {
				began := time.Now()
				g, h := st.do(t.Context(), "POST", "/", "65s", headers...)
				if took := time.Since(began); took != want {
					t.Errorf("answer %d took %v, want %v", i+1, took, want)
				}
				if i >= 2 {
					if g != (got{200, "after 65s"}) {
						t.Errorf("answer %d is %v", i+1, g)
					}
					continue
				}
				id := h.Get("Idempotency-Key")
				if g != (got{504, "there was no answer in time: repeat the request with its id"}) || h.Get("Retry-After") != "2" || id == "" || named && id != "mine" {
					t.Errorf("answer %d is %v with %v", i+1, g, h)
				}
				headers = []string{"Idempotency-Key", id}
			}
			time.Sleep(5 * time.Minute)
			if g, _ := st.do(t.Context(), "POST", "/", "65s", headers...); g != (got{409, used}) {
				t.Error(g)
			}
			if h := st.Held(); h.Known != h.Used || h.Known > 1 || h.Abandoned+h.Retained+h.Answers > 0 {
				t.Errorf("held: %+v", h)
			}
		})
	}
}

// TestClientGone checks that a request stays in the flow after its client has left. Its answer is
// kept for a repeat, or dropped if no repeat is possible.
func TestClientGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := start(t, dataflow.Options{}, serve.Options{}, called(slow))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var wg sync.WaitGroup
		for _, headers := range [][]string{nil, nil, nil, {"Idempotency-Key", "k"}} {
			wg.Go(func() {
				if g, h := st.do(ctx, "POST", "/", "3s", headers...); g != (got{503, "the request was given up"}) || h.Get("Idempotency-Key") != "" {
					t.Error(g, h)
				}
			})
		}
		wg.Wait()
		if h := st.Held(); h != (serve.Held{Known: 4, AbandonedPending: 4, Abandoned: 4}) {
			t.Errorf("before the answers: %+v", h)
		}
		st.Tidy()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if h := st.Held(); h != (serve.Held{Known: 4, AbandonedPending: 4, Abandoned: 4, Answers: 4}) {
			t.Errorf("with the answers: %+v", h)
		}
		if g := st.post("k", "3s"); g != (got{200, "after 3s"}) {
			t.Error(g)
		}
		for range 3 {
			st.post("other", "0s")
		}
		if h := st.Held(); h != (serve.Held{Known: 2, Retained: 2}) {
			t.Errorf("after other requests: %+v", h)
		}
	})
}

// TestNothingIsPutForNobody checks that a request has no effect if its client left before it was read.
func TestNothingIsPutForNobody(t *testing.T) {
	st := start(t, dataflow.Options{}, serve.Options{}, counted(0))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if g, _ := st.do(ctx, "POST", "/", "x", "Idempotency-Key", "k"); g.status != 503 {
		t.Error(g)
	}
	if g := st.post("k", "y"); g != (got{200, "answer 1"}) {
		t.Error(g)
	}
}

// TestLeaderGone checks that repeats keep waiting when the client that came first leaves.
func TestLeaderGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := start(t, dataflow.Options{}, serve.Options{}, called(slow))
		var wg sync.WaitGroup
		for i := range 5 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
			wg.Go(func() {
				defer cancel()
				want := 503
				if i >= 3 {
					want = 200
				}
				if g, _ := st.do(ctx, "POST", "/", "3500ms", "Idempotency-Key", "k"); g.status != want {
					t.Errorf("client %d: %v, want %d", i, g, want)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
	})
}

// TestDropped checks that a request dropped by the flow stays pending for a limited time only, and
// is never handled again.
func TestDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := start(t, dataflow.Options{}, serve.Options{Timeout: time.Second, Pending: 2, Retain: time.Minute}, func(in requests) responses {
			kept := keyedsingleton.Filter(in, func(r *serve.Request) bool { return string(r.Body) != "drop" })
			return keyedsingleton.Map(kept, echo)
		})
		st.post("a", "drop")
		st.post("b", "drop")
		if g := st.post("c", ""); g != (got{503, "too many requests are pending"}) {
			t.Error(g)
		}
		time.Sleep(time.Minute)
		if g := st.post("c", "again"); g != (got{200, "POST / again"}) {
			t.Error(g)
		}
		if g := st.post("a", "drop"); g != (got{409, used}) {
			t.Error(g)
		}
		if h := st.Held(); h != (serve.Held{Known: 3, Used: 2, Retained: 1, Abandoned: 2}) {
			t.Errorf("%+v", h)
		}
	})
}

// TestLost checks that an answer is dropped if its request is no longer known.
func TestLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := start(t, dataflow.Options{}, serve.Options{Timeout: time.Second, Retain: time.Minute}, called(slow))
		st.post("a", "1h")
		time.Sleep(2 * time.Minute)
		st.Tidy()
		if h := st.Held(); h != (serve.Held{Known: 1, Used: 1, Abandoned: 1}) {
			t.Errorf("before the answer: %+v", h)
		}
		time.Sleep(time.Hour)
		st.Tidy()
		if h := st.Held(); h != (serve.Held{Known: 1, Used: 1}) {
			t.Errorf("after it: %+v", h)
		}
	})
}

// TestBusy checks that a request that finds its location's queue full waits a moment, leaves no
// trace, and can be repeated.
func TestBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := make(chan struct{})
		st := start(t, dataflow.Options{Queue: 2}, serve.Options{}, func(in requests) responses {
			return keyedsingleton.MapAsync(in, func(context.Context, *serve.Request) serve.Response {
				<-open
				return serve.Response{}
			}, keyedsingleton.AsyncOptions{Concurrency: 1})
		})
		var wg sync.WaitGroup
		var refused atomic.Int32
		for i := range 12 {
			wg.Go(func() {
				g, h := st.do(t.Context(), "POST", "/", "", "Idempotency-Key", string(rune('a'+i)))
				switch {
				case g == got{503, "the service is busy"} && h.Get("Retry-After") == "1":
					refused.Add(1)
				case g.status != 200:
					t.Error(g, h)
				}
			})
			synctest.Wait()
		}
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		if refused.Load() == 0 {
			t.Error("nobody was refused")
		}
		close(open)
		wg.Wait()
		for i := range 12 {
			if g := st.post(string(rune('a'+i)), ""); g.status != 200 {
				t.Errorf("repeated, %d is %v", i, g)
			}
		}
		if h := st.Held(); h != (serve.Held{Known: 12, Retained: 12}) {
			t.Errorf("%+v", h)
		}
	})
}

// TestPending checks that the number of pending requests never exceeds Options.Pending.
func TestPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := start(t, dataflow.Options{}, serve.Options{Pending: 3}, called(slow))
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				want := got{200, "after 2s"}
				if i >= 3 {
					want = got{503, "too many requests are pending"}
				}
				if g := st.post("k", "2s"); g != want {
					t.Errorf("%d: %v, want %v", i, g, want)
				}
			})
			synctest.Wait()
		}
		wg.Wait()
	})
}

// TestStop checks that accepted requests are answered and the rest refused.
func TestStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := start(t, dataflow.Options{}, serve.Options{}, called(slow))
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if g, _ := st.do(t.Context(), "POST", "/", "2s"); g != (got{200, "after 2s"}) {
					t.Error(g)
				}
			})
		}
		synctest.Wait()
		wg.Go(func() {
			if err := st.app.Stop(t.Context()); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		if g, h := st.do(t.Context(), "POST", "/", "1s"); g != (got{503, "the service has ended"}) || h.Get("Retry-After") == "" {
			t.Error(g, h)
		}
		wg.Wait()
		if st.log.Len() > 0 {
			t.Errorf("logged: %s", st.log)
		}
	})
}

// TestStopWithTimers checks that an answer that depends on a timer never arrives once the flow ends.
func TestStopWithTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := start(t, dataflow.Options{}, serve.Options{}, func(in requests) responses {
			return keyedsingleton.Map(keyedsingleton.After(in, 2*time.Second, "late by intent"), echo)
		})
		var wg sync.WaitGroup
		for _, want := range []int{200, 503} {
			wg.Go(func() {
				if g, _ := st.do(t.Context(), "GET", "/", ""); g.status != want {
					t.Errorf("%v, want %d", g, want)
				}
			})
			time.Sleep(time.Second + time.Millisecond)
		}
		if err := st.app.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}

// TestPanic checks that a panic in the flow is logged once, and that clients learn nothing of it.
func TestPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := start(t, dataflow.Options{}, serve.Options{}, called(slow))
		want := got{500, "the service has failed"}
		var wg sync.WaitGroup
		for _, body := range []string{"2s", "secret", "3s"} {
			wg.Go(func() {
				if g, _ := st.do(t.Context(), "POST", "/", body); g != want {
					t.Errorf("%v, want %v", g, want)
				}
			})
		}
		wg.Wait()
		if g := st.post("k", "1s"); g != want {
			t.Errorf("%v, want %v", g, want)
		}
		var step *dataflow.StepError
		if err := st.app.Err(); !errors.As(err, &step) {
			t.Errorf("the flow ended with %v", err)
		}
		if log := st.log.String(); strings.Count(log, "the flow has failed") != 1 || !strings.Contains(log, "secret") || !strings.Contains(log, "goroutine") {
			t.Errorf("logged: %s", log)
		}
	})
}

// TestCancelled checks that a flow ended by its context is not reported as a failure.
func TestCancelled(t *testing.T) {
	for _, cause := range []error{context.Canceled, errors.New("the disk is full")} {
		synctest.Test(t, func(t *testing.T) {
			st := &stage{t: t}
			flow := dataflow.New()
			r, in := serve.HTTP(dataflow.At[Server](flow), "test", serve.Options{Log: slog.New(slog.DiscardHandler)})
			r.Respond(called(func(context.Context, *serve.Request) serve.Response {
				time.Sleep(2 * time.Second) // ignoring the end of ctx
				return serve.Response{}
			})(in))
			st.router = r
			ctx, cancel := context.WithCancelCause(t.Context())
			if _, err := dataflow.Start(ctx, flow); err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(time.Second, func() { cancel(cause) })
			want := got{503, "the service has ended"}
			if cause != context.Canceled {
				want = got{500, "the service has failed"}
			}
			for range 2 {
				if g, _ := st.do(t.Context(), "POST", "/", ""); g != want {
					t.Errorf("%v: %v, want %v", cause, g, want)
				}
			}
			time.Sleep(2 * time.Second)
		})
	}
}

// TestBeforeStart checks that requests wait until the flow is started.
func TestBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		flow := dataflow.New()
		r, in := serve.HTTP(dataflow.At[Server](flow), "test", serve.Options{})
		r.Respond(keyedsingleton.Map(in, echo))
		st := &stage{t: t, router: r}
		var wg sync.WaitGroup
		wg.Go(func() {
			if g := st.post("k", "early"); g != (got{200, "POST / early"}) {
				t.Error(g)
			}
		})
		time.Sleep(time.Second)
		if _, err := dataflow.Start(t.Context(), flow); err != nil {
			t.Error(err)
		}
		wg.Wait()
	})
}
