package durable

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// busy starts four senders that put entries until stop is called, which returns how many entries of
// each were acknowledged.
func busy(t *testing.T, app *App[keptPorts], from int) (stop func() [4]int) {
	ctx, cancel := context.WithCancel(t.Context())
	var senders sync.WaitGroup
	var told [4]int
	for s := range told {
		senders.Go(func() {
			for n := from; ; n++ {
				if err := app.Ports.in.Put(ctx, fmt.Sprint(s, "-", n), "v"); err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				told[s] = n + 1
			}
		})
	}
	return func() [4]int {
		cancel()
		senders.Wait()
		return told
	}
}

// taken waits until n more records were taken.
func taken(t *testing.T, app *App[keptPorts], n uint64) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for until := app.Metrics().Records + n; app.Metrics().Records < until; {
		select {
		case <-tick.C:
		case <-app.Done():
			t.Fatal(app.Err())
		}
	}
}

// often makes snapshots as often as possible, so that records are purged during a check.
var often = Options{Partitions: 3, SnapshotBytes: 4 << 10}

// TestCheckRunning checks the history of a running flow that makes snapshots and purges, and again
// from outside when the flow has stopped.
func TestCheckRunning(t *testing.T) {
	for name, open := range map[string]func(string) journal.Opener{"disklog": disklog.Dir, "natslog": natslog.Embedded} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := often
			o.Log = open(t.TempDir())
			app := start(t, nil, keptCluster, o)
			halt := busy(t, app, 0)
			for range 5 {
				taken(t, app, 50)
				all, err := app.Check(t.Context())
				if err != nil || len(all) != 3 {
					t.Errorf("%+v, %v", all, err)
				}
			}
			halt()
			if m := app.Metrics(); m.Snapshots == 0 {
				t.Error("no snapshot was made")
			}
			stop(t, app)
			all, err := Check(t.Context(), quiet(o))
			if err != nil {
				t.Error(err)
			}
			for _, p := range all {
				if p.Snapshot == 0 || p.Last != p.Snapshot || p.From == 0 || p.From > p.Last || p.Steps == 0 || p.Messages == 0 {
					t.Errorf("after a stop: %+v", p)
				}
			}
		})
	}
}

// TestCheckMissing runs Check where no history exists.
func TestCheckMissing(t *testing.T) {
	if _, err := Check(t.Context(), Options{}); err == nil {
		t.Error("there is no log to check")
	}
	for name, open := range map[string]func(string) journal.Opener{"disklog": disklog.Dir, "natslog": natslog.Embedded} {
		if all, err := Check(t.Context(), quiet(Options{Log: open(t.TempDir())})); len(all) != 0 || !errors.Is(err, ErrMissing) {
			t.Errorf("%s: %v, %v", name, all, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log := journal.NewMemory(journal.MemoryOptions{Partitions: 3})
	if all, err := Check(ctx, quiet(Options{Log: journal.Opened{Log: log}})); len(all) != 1 || !errors.Is(err, context.Canceled) {
		t.Errorf("%v, %v", all, err)
	}
}
