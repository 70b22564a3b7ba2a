package toolserver_test

import (
	"context"
	"flag"
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	goruntime "runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/agentproto/toolserver"
)

var finishedCalls = flag.Int("finished.calls", 1000, "calls that TestN62_FinishedCalls and TestN94_ForgottenCalls make in each of two rounds; the largest run has 1000000")

// A finisher makes calls that end at once.
type finisher struct {
	*house
	n int
}

// finish makes calls, 64 at a time and three for each session, until all results are delivered.
func (f *finisher) finish(calls int) {
	f.t.Helper()
	for calls > 0 {
		batch := min(calls, 1000)
		calls -= batch
		next := f.n
		f.n += batch
		var callers sync.WaitGroup
		for lane := range 64 {
			callers.Go(func() {
				for i := next + lane; i < next+batch; i += 64 {
					if code := f.invoke("add", fmt.Sprint("c", i), `{"a":1,"b":2}`, thread(fmt.Sprint("t", i/3))); code != http.StatusOK {
						f.t.Errorf("call %d is answered %d", i, code)
					}
				}
			})
		}
		callers.Wait()
		synctest.Wait()
		for range batch {
			f.next()
		}
		f.mu.Lock() // exclude the test's own records from the measurement
		f.attempts, f.seen = nil, make(map[string]bool)
		f.log.b.Reset()
		f.mu.Unlock()
	}
}

// use returns the bytes in use after a restart, and the bytes of the folder of the state.
func (f *finisher) use() (heap, disk int64) {
	f.t.Helper()
	<-time.After(2 * time.Minute) // for snapshots and pending answers
	synctest.Wait()
	f.end()
	filepath.WalkDir(f.opts.State, func(_ string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() {
			if info, err := e.Info(); err == nil {
				disk += info.Size()
			}
		}
		return nil
	})
	f.begin()
	f.call("add", fmt.Sprint("again", f.n), `{"a":1,"b":2}`)
	f.next()
	<-time.After(time.Minute)
	synctest.Wait()
	goruntime.GC()
	goruntime.GC()
	var m goruntime.MemStats
	goruntime.ReadMemStats(&m)
	return int64(m.HeapAlloc), disk
}

// finishing makes two rounds of calls, with a pause after each, and limits what the second round adds for each call.
func finishing(t *testing.T, opts toolserver.Options, pause time.Duration, heapMost, diskMost int64) {
	synctest.Test(t, func(t *testing.T) {
		f := &finisher{house: newHouse(t, opts, addTools)}
		n := int64(*finishedCalls)
		round := func() (heap, disk int64) {
			f.finish(int(n))
			<-time.After(pause)
			heap, disk = f.use()
			t.Logf("after %d calls %d kB are in use, and %d kB on disk", f.n, heap>>10, disk>>10)
			return heap, disk
		}
		f.finish(100) // creates everything that is created once
		f.use()
		heap, disk := round()
		heap2, disk2 := round()
		heap, disk = (heap2-heap)/n, (disk2-disk)/n
		t.Logf("each call has added %d bytes of memory and %d on disk", heap, disk)
		if heap > heapMost || disk > diskMost {
			t.Errorf("each call has added %d bytes of memory and %d on disk, want at most %d and %d", heap, disk, heapMost, diskMost)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		if err := f.server.Close(ctx); err != nil {
			t.Error(err)
		}
	})
}

// TestN62_FinishedCalls has calls that are remembered for a day. The test fails if a table or a part of a snapshot holds more of
// a call than its key, its digest and its result.
//
//	go test ./agentproto/toolserver -run TestN62_FinishedCalls -v -timeout 1h -finished.calls 50000
func TestN62_FinishedCalls(t *testing.T) {
	finishing(t, toolserver.Options{Remember: 24 * time.Hour}, 0, 1000, 1200)
}

// TestN94_ForgottenCalls has calls that are forgotten after a minute, with their effects kept on disk and restarts in between.
// The test fails if anything of each call is kept forever.
func TestN94_ForgottenCalls(t *testing.T) {
	finishing(t, toolserver.Options{Remember: time.Minute}, 2*time.Hour, 400, 1000) // a call that is kept takes 480 bytes
}
