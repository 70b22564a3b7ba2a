package host

import (
	"flag"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
	"github.com/millrace/millrace/agentproto/host/internal/memlimit"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
)

// onDisk makes the runtime store its state in a folder, as millrace serve does.
func (w *world) onDisk() (dir string) {
	sealer, err := SealerOf([32]byte{1})
	if err != nil {
		w.t.Fatal(err)
	}
	dir = w.t.TempDir()
	w.opts.Sealer, w.opts.State = sealer, &durable.Options{Log: disklog.Dir(dir), Partitions: 1, Logger: slog.New(slog.DiscardHandler)}
	return dir
}

// liveNow returns the number of live bytes on the heap.
func liveNow() int64 {
	runtime.GC()
	runtime.GC()
	return memlimit.LiveHeap()
}

var largeResults = flag.Int("large.results", 30, "results of 900 kB that come in TestN67_ReadResults")

// TestN67_ReadResults sends results of 900 kB, reads them and closes their threads. It catches results that stay in memory or on
// disk after they were read. A read result then reports only its size, because its call is remembered for a day (decision 0084):
// 410 is for a thread that has moved.
//
//	go test ./agentproto/host -run TestN67_ReadResults -v -large.results 75
func TestN67_ReadResults(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		text := strings.Repeat("x", 900_000)
		tool := w.tool("tool.test")
		dir := w.onDisk()
		w.start(tool.base)
		before := liveNow()
		var keys []agentproto.CallKey
		for i := range *largeResults {
			key := w.call(fmt.Sprint("g", i), "1")
			if status := w.post(tool.callbackOf(key), result(key, text)); status != 200 {
				t.Fatalf("result %d is answered %d", i, status)
			}
			if got := w.text(key); got != text {
				t.Fatalf("result %d has %d bytes", i, len(got))
			}
			if err := w.rt.CloseThread(t.Context(), key.GroupID); err != nil {
				t.Fatal(err)
			}
			w.pass(time.Second)
			keys = append(keys, key)
		}
		w.pass(readAgainFor + time.Minute)
		heap, disk := liveNow()-before, used(dir)-setAside
		t.Logf("%d kB more are in use, and %d kB on disk", heap>>10, disk>>10)
		if heap > 20<<20 || disk > 40<<20 {
			t.Errorf("%d MiB more are in use, and %d MiB on disk", heap>>20, disk>>20)
		}
		for _, key := range keys {
			if got := w.text(key); got != "[a result of 900000 bytes, which is no longer kept]" {
				t.Fatalf("%v: %.60q", key, got)
			}
		}
	})
}

// setAside is the space that a log in a folder reserves for a full disk.
const setAside = 16 << 20

// readAgainFor is how long a large result can be read again.
const readAgainFor = 10 * time.Minute

// TestN70_ResultsOfOneSession sends one session twelve results of 900 kB that nobody reads. It catches a session that fills the
// memory, that costs another session its results, or that can no longer work. A session's results are bounded at 2 MiB (decision
// 0084): the oldest are deleted, and no call is refused.
func TestN70_ResultsOfOneSession(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool := w.tool("tool.test")
		w.onDisk()
		w.start(tool.base)
		before := liveNow()
		get := func(group, id string) agentproto.CallKey {
			key := w.call(group, id)
			if status := w.post(tool.callbackOf(key), result(key, strings.Repeat("x", 900_000))); status != 200 {
				t.Fatalf("the result of %v is answered %d", key, status)
			}
			w.pass(time.Second)
			return key
		}
		other := get("other", "1")
		var keys []agentproto.CallKey
		for i := range 12 {
			keys = append(keys, get("large", fmt.Sprint(i)))
		}
		w.pass(10 * time.Minute) // for snapshots
		if heap := liveNow() - before; heap > 30<<20 {
			t.Errorf("%d MiB more are in use", heap>>20)
		}
		for i, key := range keys {
			if n := len(w.text(key)); (n == 900_000) != (i >= 10) {
				t.Errorf("of result %d there are %d bytes", i, n)
			}
		}
		if n := len(w.text(other)); n != 900_000 {
			t.Errorf("of another session's result there are %d bytes", n)
		}
	})
}

// TestN71_LargeResultWhileFull sends a result of nearly 8 MiB when the memory is nearly full. It catches a result that is refused
// or lost. The result is stored whole. The measurement covers the whole process, so nothing is reserved (decision 0084): results
// use the tenth that new calls do not get.
func TestN71_LargeResultWhileFull(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		w.rt.memory.Limit, w.rt.memory.Live, w.rt.memory.Free = 100, func() int64 { return 95 }, func() {}
		image := strings.Repeat("AAAA", 7<<18)
		body := fmt.Sprintf(`{"type":"tool_result","group_id":%q,"id":%q,"content":[{"type":"image","data":%q,"mediaType":"image/png"}]}`, key.GroupID, key.ID, image)
		if status := w.post(url, body); status != 200 {
			t.Fatalf("it is answered %d", status)
		}
		if r, err := w.rt.Await(t.Context(), key); err != nil || r.Cause != agentproto.ByResult || r.Result.Size() != len(image) {
			t.Fatalf("%+v, %v", r.Cause, err)
		}
		w.pass(readAgainFor + time.Minute)
		if got := w.text(key); got != fmt.Sprintf("[a result of %d bytes, which is no longer kept]", len(image)) {
			t.Errorf("when it was read: %.60q", got)
		}
		if n := len(tool.invocations()); n != 1 {
			t.Errorf("%d invocations", n)
		}
	})
}
