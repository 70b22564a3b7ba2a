package serve_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/durabletest"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/dataflow/serve"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

var quiet = slog.New(slog.DiscardHandler)

// A deposit is the request body in the tests.
type deposit struct {
	Amount int `json:"amount"`
}

// A bank has three routes: one takes deposits and answers with their number, one reads, and one
// answers after a call of one second.
type bank struct{ router *serve.Router[Server] }

func bankOf(opts serve.Options) func(*dataflow.Flow) bank {
	return func(flow *dataflow.Flow) bank {
		at := dataflow.At[Server](flow)
		router := serve.Routes(at, "bank", opts)
		deposits, made := serve.JSON[deposit](router, "POST /deposits")
		tick := slice.At(at)
		batch := slice.BatchEntries(tick, made, "a deposit is answered alone")
		number := slice.Snapshot(tick, keyedsingleton.KeyCount(made), "it is told how many there were")
		deposits.Respond(slice.EmitEntries(keyedsingleton.Map(keyedsingleton.CrossSingleton(batch, number),
			func(p dataflow.Pair[*serve.RequestOf[deposit], int]) serve.Response {
				r := serve.Reply(http.StatusCreated, map[string]int{"amount": p.First.Value.Amount, "number": p.Second})
				r.Header.Set("Location", fmt.Sprint("/deposits/", p.Second))
				return r
			})))
		echo, asked := router.Handle("GET /echo")
		echo.Respond(keyedsingleton.Map(asked, func(r *serve.Request) serve.Response {
			return serve.Text(http.StatusOK, r.Query.Get("x")+r.Header.Get("X-Y"))
		}))
		slow, started := router.Handle("POST /slow")
		slow.Respond(keyedsingleton.MapAsync(started, func(ctx context.Context, r *serve.Request) serve.Response {
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			return serve.Text(http.StatusOK, "done")
		}, keyedsingleton.AsyncOptions{}))
		return bank{router}
	}
}

// call sends a request and returns status, body and headers.
func (b bank) call(ctx context.Context, method, target, body string, headers ...string) (got, http.Header) {
	r := httptest.NewRequest(method, target, strings.NewReader(body)).WithContext(ctx)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	b.router.ServeHTTP(w, r)
	return got{w.Code, strings.TrimSuffix(w.Body.String(), "\n")}, w.Header()
}

func startBank(t *testing.T, log journal.Opener, opts serve.Options) *durable.App[bank] {
	t.Helper()
	app, err := durable.Start(context.Background(), bankOf(opts), durable.Options{Log: log, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return app
}

// TestRestart checks, on each log, that the next process gives the same answers to repeated requests.
func TestRestart(t *testing.T) {
	for name, log := range map[string]func() journal.Opener{
		"memory": func() func() journal.Opener {
			m := journal.NewMemory(journal.MemoryOptions{})
			return func() journal.Opener { return journal.Opened{Log: m.Reopen()} }
		}(),
		"natslog": func() func() journal.Opener {
			dir := t.TempDir()
			return func() journal.Opener { return natslog.Embedded(dir) }
		}(),
	} {
		for _, mode := range []*serve.Idempotency{nil, {}} {
			t.Run(fmt.Sprintf("%s, %v", name, mode != nil), func(t *testing.T) {
				key := fmt.Sprint("key ", mode != nil)
				opts := serve.Options{Idempotent: mode}
				post := func(app *durable.App[bank], body string) (got, http.Header) {
					return app.Ports.call(t.Context(), "POST", "/deposits", body, "Idempotency-Key", key, "Authorization", "ann")
				}
				app := startBank(t, log(), opts)
				first, header := post(app, `{"amount": 7}`)
				if first.status != 201 || header.Get("Location") == "" {
					t.Fatal(first, header)
				}
				for range 2 {
					if again, h := post(app, `{"amount": 7}`); again != first || !reflect.DeepEqual(h, header) {
						t.Errorf("got %v, want %v", again, first)
					}
					if other, _ := post(app, `{"amount": 8}`); other.status != 422 {
						t.Errorf("another body: %v", other)
					}
					if g, _ := app.Ports.call(t.Context(), "GET", "/echo?x=1", "", "X-Y", "2"); g != (got{200, "12"}) {
						t.Errorf("without an id: %v", g)
					}
					if err := app.Stop(t.Context()); err != nil {
						t.Fatal(err)
					}
					if g, _ := post(app, `{"amount": 7}`); g.status != 200 && g.status != 201 && g.status != 503 {
						t.Errorf("after the end: %v", g)
					}
					app = startBank(t, log(), opts)
				}
				if err := app.Stop(t.Context()); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// TestKeepsUntilRetain checks that a response is kept for Retain of the flow's time, and that the
// request is not handled again after that.
func TestKeepsUntilRetain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := journal.NewMemory(journal.MemoryOptions{})
		app := startBank(t, journal.Opened{Log: m.Reopen()}, serve.Options{Idempotent: &serve.Idempotency{}})
		post := func() got {
			g, _ := app.Ports.call(t.Context(), "POST", "/deposits", `{"amount": 7}`, "Idempotency-Key", "k")
			return g
		}
		first := post()
		app.Ports.call(t.Context(), "GET", "/echo?x=1", "")
		time.Sleep(6 * time.Minute) // the answer without an id is dropped
		if h := app.Ports.router.Held(); h != (serve.Held{}) {
			t.Errorf("held: %+v", h)
		}
		time.Sleep(12 * time.Hour)
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Hour) // this time passes for the flow, too
		app = startBank(t, journal.Opened{Log: m.Reopen()}, serve.Options{Idempotent: &serve.Idempotency{}})
		if g := post(); g != first || g.status != 201 {
			t.Errorf("after 23 hours %v, want %v", g, first)
		}
		time.Sleep(time.Hour)
		if g := post(); g != (got{409, used}) {
			t.Errorf("after 24 hours %v", g)
		}
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestEachOnceOverCrashes crashes a service at each moment, while a client repeats unanswered
// requests. Each request has one effect and one response.
func TestEachOnceOverCrashes(t *testing.T) {
	var mu sync.Mutex
	heard := map[string]string{} // by key and content; outlives the crashes
	ask := func(ctx context.Context, b bank, key, body string) error {
		for {
			g, _ := b.call(ctx, "POST", "/deposits", body, "Idempotency-Key", key)
			switch g.status {
			case 409: // still being handled
				select {
				case <-time.After(time.Second):
				case <-ctx.Done():
					return ctx.Err()
				}
				continue
			case 201:
			default:
				return errors.New(g.body)
			}
			mu.Lock()
			defer mu.Unlock()
			if was, ok := heard[key]; ok && was != g.body {
				return fmt.Errorf("%s was answered %s and then %s", key, was, g.body)
			}
			heard[key] = g.body
			return nil
		}
	}
	runs := durabletest.Crash(t, durabletest.Program[bank]{
		Build: bankOf(serve.Options{Idempotent: &serve.Idempotency{}, Log: quiet}),
		Drive: func(ctx context.Context, b bank) error {
			clear(heard)
			for _, key := range []string{"a", "b"} {
				for range 2 {
					if err := ask(ctx, b, key, `{"amount": 1}`); err != nil {
						return err
					}
				}
			}
			return nil
		},
		Check: func(ctx context.Context, b bank) error {
			for key, want := range map[string]string{"a": `{"amount":1,"number":1}`, "b": `{"amount":1,"number":2}`} {
				if g, _ := b.call(ctx, "POST", "/deposits", `{"amount": 1}`, "Idempotency-Key", key); g != (got{201, want}) {
					return fmt.Errorf("%s is answered %v, want %s", key, g, want)
				}
				if g, _ := b.call(ctx, "POST", "/deposits", `{"amount": 2}`, "Idempotency-Key", key); g.status != 422 {
					return fmt.Errorf("%s with another body is answered %v", key, g)
				}
			}
			return nil
		},
	}, durabletest.Options{LostAnswers: true})
	if runs < 10 {
		t.Errorf("there were only %d runs", runs)
	}
}

// TestCrashWhileHandled checks that the next process completes a request that was being handled in a
// crash, without a repeat. A repeat learns that it is still being handled until there is an answer.
func TestCrashWhileHandled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := journal.NewMemory(journal.MemoryOptions{})
		opts := serve.Options{Idempotent: &serve.Idempotency{}, Log: quiet}
		app := startBank(t, journal.Opened{Log: m}, opts)
		post := func(body string) got {
			g, _ := app.Ports.call(t.Context(), "POST", "/slow", body, "Idempotency-Key", "k")
			return g
		}
		var first sync.WaitGroup
		first.Go(func() {
			if g, _ := app.Ports.call(t.Context(), "POST", "/slow", "", "Idempotency-Key", "k"); g.status < 500 {
				t.Errorf("a request of the process that crashed is answered %v", g)
			}
		})
		time.Sleep(time.Second / 2)
		m.Crash()
		<-app.Done()
		first.Wait()

		app = startBank(t, journal.Opened{Log: m.Reopen()}, opts)
		if g := post(""); g != (got{409, running}) {
			t.Errorf("while it is handled: %v", g)
		}
		if g := post("x"); g != (got{422, other}) {
			t.Errorf("with another body: %v", g)
		}
		time.Sleep(time.Second)
		if g := post(""); g != (got{200, "done"}) {
			t.Errorf("when it was handled: %v", g)
		}
		if err := app.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

type shards struct{ dataflow.Cluster }

// TestDivided checks that a router of a location with divided keys keeps each request in its
// partition.
func TestDivided(t *testing.T) {
	m := journal.NewMemory(journal.MemoryOptions{Partitions: 3})
	build := func(flow *dataflow.Flow) http.Handler {
		router, requests := serve.HTTP(dataflow.At[shards](flow), "echo", serve.Options{})
		router.Respond(keyedsingleton.Map(requests, func(r *serve.Request) serve.Response {
			return serve.Text(http.StatusOK, string(r.ID)+" "+string(r.Body))
		}))
		return router
	}
	for run := range 2 {
		app, err := durable.Start(context.Background(), build, durable.Options{Log: journal.Opened{Log: m.Reopen()}, Logger: quiet})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			for body, want := range map[string]int{"x": 200, "y": 422} {
				if body == "y" && run == 0 {
					continue // only x comes in run 0, so x is the request that is kept
				}
				w := httptest.NewRecorder()
				r := httptest.NewRequest("POST", "/", strings.NewReader(body))
				r.Header.Set("Idempotency-Key", fmt.Sprint("key ", i))
				app.Ports.ServeHTTP(w, r)
				if w.Code != want || want == 200 && w.Body.String() != fmt.Sprintf("key %d x", i) {
					t.Errorf("run %d, key %d, %s: %d %s", run, i, body, w.Code, w.Body)
				}
			}
		}
		if err := app.Stop(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}
