package serve_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/serve"
	"github.com/millrace/millrace/keyedsingleton"
)

var seed = flag.Uint64("seed", 0, "run TestChaos with this `seed` only")

// TestChaos has clients send, repeat, abandon and retry requests, while the flow answers late, drops requests
// and is full. A request is handled at most once, all its answers are equal, and in the end only used ids are
// stored. It catches errors between waiters that run a call, waiters that wait for them, and abandoned calls.
func TestChaos(t *testing.T) {
	seeds := []uint64{*seed}
	if *seed == 0 {
		seeds = nil
		for i := range 30 {
			seeds = append(seeds, uint64(i+1))
		}
	}
	for _, seed := range seeds {
		synctest.Test(t, func(t *testing.T) { chaos(t, seed) })
		if t.Failed() {
			t.Fatalf("rerun: go test -run '^%s$' -seed %d", t.Name(), seed)
		}
	}
}

func chaos(t *testing.T, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, seed))
	const ids, clients, each = 12, 25, 20
	var mu sync.Mutex
	done := make(map[serve.RequestID]int)
	opts := serve.Options{
		Timeout: 300 * time.Millisecond, Patience: 20 * time.Millisecond, Retain: time.Second,
		Pending: 1 + rng.IntN(40), Answers: 1 + rng.IntN(10),
	}
	st := start(t, dataflow.Options{Queue: 1 + rng.IntN(8)}, opts, func(in requests) responses {
		kept := keyedsingleton.Filter(in, func(r *serve.Request) bool { return r.Path != "/drop" })
		return keyedsingleton.MapAsync(kept, func(_ context.Context, r *serve.Request) serve.Response {
			d, err := time.ParseDuration(r.Query.Get("d"))
			if err != nil {
				panic(err)
			}
			time.Sleep(d)
			mu.Lock()
			defer mu.Unlock()
			done[r.ID]++
			return serve.Text(http.StatusOK, fmt.Sprint(r.ID, " for ", string(r.Body)))
		}, keyedsingleton.AsyncOptions{Concurrency: 1 + rng.IntN(8)})
	})
	// The content of each id is fixed, so that its requests are repeats.
	targets := make([]string, ids)
	for i := range targets {
		targets[i] = fmt.Sprintf("/?d=%dms", rng.IntN(700))
		if rng.IntN(6) == 0 {
			targets[i] = "/drop"
		}
	}
	answers := make(map[string]string)
	statuses := make(map[int]int)
	var wg sync.WaitGroup
	for c := range clients {
		rng := rand.New(rand.NewPCG(seed, uint64(c)))
		wg.Go(func() {
			for range each {
				time.Sleep(time.Duration(rng.IntN(200)) * time.Millisecond)
				i := rng.IntN(ids + 2)
				var headers []string
				id, target, body := "", "/?d=1ms", ""
				if i < ids {
					id, target = fmt.Sprint("id ", i), targets[i]
					headers = []string{"Idempotency-Key", id}
				}
				if rng.IntN(20) == 0 {
					body = "other"
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(1+rng.IntN(500))*time.Millisecond)
				g, _ := st.do(ctx, "POST", target, body, headers...)
				cancel()
				mu.Lock()
				statuses[g.status]++
				if g.status == 200 && id != "" {
					if answers[id] == "" {
						answers[id] = g.body
					}
					if answers[id] != g.body {
						t.Errorf("%s was answered %q and %q", id, answers[id], g.body)
					}
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for range 5 { // until everything is answered, expired and collected
		time.Sleep(10 * time.Second)
		st.Tidy()
	}
	mu.Lock()
	defer mu.Unlock()
	for id, n := range done {
		if n != 1 {
			t.Errorf("%s was done %d times", id, n)
		}
	}
	// A remaining abandoned call is one that the flow dropped: its answer never comes.
	if h := st.Held(); h.Known != h.Used || h.Known > ids || h.Serving+h.AbandonedPending+h.Retained+h.Answers > 0 || h.Abandoned > ids {
		t.Errorf("held: %+v", h)
	}
	if statuses[200] == 0 || statuses[500] > 0 {
		t.Errorf("statuses: %v", statuses)
	}
	if st.log.Len() > 0 {
		t.Errorf("logged: %s", st.log)
	}
	t.Logf("seed %d: %v", seed, statuses)
}
