package disklog_test

import (
	"runtime"
	"sync/atomic"
	"testing"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestGathering checks that many callers of all partitions share syncs and messages. How many share
// one depends on how long a sync takes: here as long as the other callers need to call.
func TestGathering(t *testing.T) {
	t.Parallel()
	ctx := soon(t)
	const callers, calls = 64, 20
	var active atomic.Int64
	var log atomic.Pointer[disklog.Log]
	slow := newDisk(1 << 30)
	slow.syncing = func() {
		for l := log.Load(); l != nil && int64(l.Submitted()) < active.Load() && ctx.Err() == nil; {
			runtime.Gosched()
		}
	}
	l := openAs(t, disklog.On(slow, t.TempDir(), small), journal.OpenOptions{Partitions: 4})
	active.Store(callers)
	log.Store(l)
	done := make(chan error)
	for caller := range callers {
		go func() {
			defer active.Add(-1)
			for range calls {
				if _, err := l.Append(ctx, caller%4, make([]byte, 64)); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	m := l.Metrics()
	if m.Records != callers*calls || m.Messages == 0 || m.Messages > m.Records/2 || m.Syncs > m.Messages {
		t.Errorf("%+v", m)
	}
}
