package durable

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestBacklog sends to a partition whose step does not come to an end: as many records are
// accepted as may wait, exactly, however many senders there are, and the others when steps go
// on.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, senders, each = 100, 8, 40
		var held atomic.Pointer[chan struct{}] // what commits wait for, if there is one
		log := journal.NewMemory(journal.MemoryOptions{Hook: func(a journal.Action) journal.Fault {
			if until := held.Load(); until != nil && a.Op == journal.OpCommit && !a.Done {
				return journal.Fault{Until: *until}
			}
			return journal.Fault{}
		}})
		app := start(t, log, gathering(func(int) bool { return false }), Options{Partitions: 1, MaxLag: Lag{Records: most}})
		goOn := make(chan struct{})
		held.Store(&goOn)
		sent := make(chan error, senders*each)
		for s := range senders {
			go func() {
				for i := range each {
					sent <- app.Ports.in.Send(t.Context(), fmt.Sprint("k", s, "-", i), i)
				}
			}()
		}
		time.Sleep(time.Minute)
		// The step that waits has taken what came first, which counts until it is committed.
		if n := len(sent); n != most {
			t.Errorf("%d records were accepted, want %d", n, most)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var full *BacklogError
		if err := app.Ports.in.Send(ctx, "late", 1); !errors.As(err, &full) || full.Lag.Records != most || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a send beyond that: %v", err)
		}
		close(goOn)
		for range senders * each {
			if err := <-sent; err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Minute)
		pg := app.core.gateway.partitions[0]
		pg.mu.Lock()
		lag := pg.backlog.known.plus(pg.backlog.mine())
		pg.mu.Unlock()
		if lag != (Lag{}) {
			t.Errorf("when all is taken, the lag is %+v", lag)
		}
		stop(t, app)
	})
}
