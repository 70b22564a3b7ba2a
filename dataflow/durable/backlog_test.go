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

// TestBacklog sends to a partition whose step does not end. Exactly as many records are accepted as
// may wait, however many senders there are. The others are accepted when steps continue.
func TestBacklog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most, senders, each = 100, 8, 40
		var held atomic.Pointer[chan struct{}] // commits wait until it is closed, if it is set
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
		// The waiting step has taken the first records, which count until it is committed.
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
