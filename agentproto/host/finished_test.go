package host

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
)

var finishedCalls = flag.Int("finished.calls", 1000, "calls that TestN73_RestartAfterManyCalls makes in each of two rounds, and twice those of TestN94_ForgottenCallsOnDisk; the largest run has 50000")

// A finishing is a world in which calls are resolved and read and the runtime is restarted.
type finishing struct {
	*world
	dir string
	n   int
}

func newFinishing(w *world) *finishing {
	w.host("tool.test", &soaking{w: w, text: func(string) string { return "20 bytes of a result" }})
	f := &finishing{world: w, dir: w.onDisk()}
	w.start("http://tool.test")
	f.finish(100) // so that one-time state exists
	f.restart()
	return f
}

// finish makes calls, three per session, and reads their results.
func (f *finishing) finish(calls int) {
	f.t.Helper()
	next := f.n
	f.n += calls
	var callers sync.WaitGroup
	for lane := range 32 {
		callers.Go(func() {
			for i := next + lane; i < next+calls; i += 32 {
				key, err := f.rt.Call(f.t.Context(), Request{GroupID: fmt.Sprint("t", i/3), ID: fmt.Sprint(i), Operation: "small"})
				if err != nil {
					f.t.Error(err)
					return
				}
				if r, err := f.rt.Await(f.t.Context(), key); err != nil || r.Cause != agentproto.ByResult {
					f.t.Errorf("call %d: %+v, %v", i, r, err)
				}
			}
		})
	}
	callers.Wait()
}

// restart restarts the runtime. It returns the live bytes after the restart, and the bytes on disk between stop and start.
func (f *finishing) restart() (heap, disk int64) {
	f.t.Helper()
	if err := f.rt.Stop(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	f.rt, *f.last = nil, nil
	disk = used(f.dir)
	f.start("http://tool.test")
	f.logs.reset()
	f.pass(time.Minute)
	return liveNow(), disk
}

// rounds makes two rounds of calls, each followed by a pause and a restart. It fails if the second round has added more per call
// than the bounds allow.
func (f *finishing) rounds(n int64, pause time.Duration, heapMost, diskMost int64) {
	f.t.Helper()
	var heap, disk [2]int64
	for i := range heap {
		f.finish(int(n))
		f.pass(pause)
		heap[i], disk[i] = f.restart()
		f.t.Logf("after %d calls %d kB are in use, and %d kB on disk", f.n, heap[i]>>10, disk[i]>>10)
	}
	h, d := (heap[1]-heap[0])/n, (disk[1]-disk[0])/n
	f.t.Logf("each call has added %d bytes of memory and %d on disk", h, d)
	if h > heapMost || d > diskMost {
		f.t.Errorf("each call has added %d bytes of memory and %d on disk, want at most %d and %d", h, d, heapMost, diskMost)
	}
}

// TestN73_RestartAfterManyCalls restarts a runtime that remembers many calls. It catches a part of the state, or of the history
// read at the start, that holds more of a call than its key and its result. It also catches calls that are unknown after the
// restart.
//
//	go test ./agentproto/host -run TestN73_RestartAfterManyCalls -v -timeout 1h -finished.calls 50000
func TestN73_RestartAfterManyCalls(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		f := newFinishing(w)
		f.rounds(int64(*finishedCalls), time.Minute, 3000, 1500)
		for i := 0; i < f.n; i += 97 {
			if got := w.text(agentproto.CallKey{GroupID: fmt.Sprint("t", i/3), ID: fmt.Sprint(i)}); got != "20 bytes of a result" {
				t.Fatalf("call %d is %q after the restart", i, got)
			}
		}
	})
}

// TestN94_ForgottenCallsOnDisk lets calls end and be forgotten. It catches state that stays forever for each call, in memory or
// on disk.
func TestN94_ForgottenCallsOnDisk(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.opts.Conversation.Retain = time.Hour
		f := newFinishing(w)
		f.rounds(int64(*finishedCalls)/2, 3*time.Hour, 1000, 1000) // a call that is kept takes 1,700 bytes
	})
}

// TestN74_ForgottenWhileDown lets the retention of calls pass while the runtime is down. It catches a runtime that restores calls
// it should have forgotten and refuses their keys.
func TestN74_ForgottenWhileDown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		w.onDisk()
		w.start(tool.base)
		key := w.call("g", "1")
		w.post(tool.callbackOf(key), result(key, "a"))
		if got := w.text(key); got != "a" {
			t.Fatalf("result %q", got)
		}
		if err := w.rt.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
		w.pass(49 * time.Hour)
		w.start(tool.base)
		w.pass(time.Second)
		if known, err := w.rt.Known(t.Context(), key); known || err != nil {
			t.Errorf("after two days the call is known: %t, %v", known, err)
		}
		w.call("g", "1")
		if n := len(tool.invocations()); n != 2 {
			t.Errorf("%d invocations", n)
		}
	})
}

func (b *lockedBuffer) reset() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.b.Reset()
}
