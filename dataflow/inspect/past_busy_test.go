package inspect_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/inspect"
)

// A gatedLog blocks every Read while it is shut.
type gatedLog struct {
	*journal.Memory
	shut atomic.Bool
	gate chan struct{}
}

func (l *gatedLog) Read(ctx context.Context, p int, after uint64) (journal.Reader, error) {
	if l.shut.Load() {
		select {
		case <-l.gate:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return l.Memory.Read(ctx, p, after)
}

// TestHistoryBusy checks that the handler rebuilds steps for one request at a time and for at most two seconds,
// and that the flow continues meanwhile.
func TestHistoryBusy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &gatedLog{Memory: journal.NewMemory(journal.MemoryOptions{}), gate: make(chan struct{})}
		app := startTill(t, log, durable.Options{KeepFor: durable.Forever})
		var model tillModel
		model.pay(t, app, "a")
		h := inspect.Handler(app, inspect.Options{Values: true})
		log.shut.Store(true)
		var first sync.WaitGroup
		first.Go(func() { lookBack(t, h, "/v1/history/0/state", 200) })
		synctest.Wait()
		for _, path := range []string{"/v1/history/0/state", "/v1/history/changes?type=string&key=a", "/v1/history/export", "/history"} {
			if r, body := ask(t, h, "GET", path); r.StatusCode != 429 || r.Header.Get("Retry-After") == "" {
				t.Errorf("%s is answered %d %s", path, r.StatusCode, body)
			}
		}
		model.pay(t, app, "b")
		close(log.gate)
		first.Wait()
		lookBack(t, h, "/v1/history/0/state", 200)
		log.gate = make(chan struct{})
		began := time.Now()
		if r, body := ask(t, h, "GET", "/v1/history/0/state"); r.StatusCode != 503 || r.Header.Get("Retry-After") == "" || time.Since(began) != 2*time.Second {
			t.Errorf("after %v it is answered %d %s", time.Since(began), r.StatusCode, body)
		}
		close(log.gate)
		if err := app.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	})
}

// TestHistoryWhileItRuns sends concurrent history requests to a running flow that saves snapshots and purges older steps.
func TestHistoryWhileItRuns(t *testing.T) {
	app := startTill(t, journal.NewMemory(journal.MemoryOptions{}), durable.Options{SnapshotBytes: 2000})
	var model tillModel
	model.pay(t, app, "k0")
	h := inspect.Handler(app, inspect.Options{Values: true})
	var lookers sync.WaitGroup
	var seen [3]atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	for i, path := range []string{"/history?type=string&key=k1", "/v1/history/0/state?operator=1", "/members"} {
		lookers.Go(func() {
			for ctx.Err() == nil {
				switch r, body := ask(t, h, "GET", path); {
				case r.StatusCode == 200:
					seen[i].Add(1)
				case r.StatusCode == 404 || r.StatusCode == 429: // the step was purged meanwhile, or another request is being handled
				case r.StatusCode == 503 && strings.Contains(body, "purged"): // purged repeatedly while it was read
				default:
					t.Errorf("%s is answered %d %s", path, r.StatusCode, body)
				}
			}
		})
	}
	for n := 0; !t.Failed() && (n < 50 || seen[0].Load() == 0 || seen[1].Load() == 0 || seen[2].Load() == 0); n++ {
		model.pay(t, app, many(3, 3)...)
	}
	cancel()
	lookers.Wait()
	last := len(model.steps) - 1
	if p := lookBack(t, h, "/v1/history/0/state?type=string&key=k1", 200); len(p.Found) != 1 || p.Found[0].Value != fmt.Sprint(model.sums[last]["k1"]) {
		t.Errorf("k1 is %+v, want %d", p.Found, model.sums[last]["k1"])
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
}
