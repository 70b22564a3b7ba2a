package host

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// TestMemory would catch calls that are refused although only garbage is in the way, garbage that is collected for each of them, and
// a runtime that takes no calls without a bound.
func TestMemory(t *testing.T) {
	now, live, garbage, made, collected := time.Unix(1000, 0), int64(0), int64(0), int64(1<<40), 0
	m := newMemory(100 << 20)
	m.made = func() int64 { return made }
	m.live, m.now = func() int64 { return live + garbage }, func() time.Time { return now }
	m.free = func() { garbage, collected = 0, collected+1 }
	for _, x := range []struct {
		after     time.Duration
		live      int64 // MiB
		garbage   int64
		made      int64 // since the one before
		full      bool
		collected int
	}{
		{0, 89, 0, 0, false, 0},
		{0, 89, 5, 0, false, 1},
		{4 * time.Second, 89, 5, 15, true, 1}, // it may be garbage: that is found out later
		{time.Second, 89, 5, 0, false, 2},
		{time.Second, 89, 5, 15, true, 2},
		{0, 89, 5, 1, false, 3}, // or when some was made
		{time.Minute, 95, 0, 0, true, 4},
		{time.Second, 95, 0, 100, true, 4}, // which is of no use if there was no room
		{time.Second, 80, 0, 0, false, 4},
	} {
		now, live, garbage, made = now.Add(x.after), x.live<<20, x.garbage<<20, made+x.made<<20
		if err := m.full(); errors.Is(err, ErrFull) != x.full || collected != x.collected {
			t.Errorf("%+v: %v, collected %d times", x, err, collected)
		}
	}
	live = 1 << 40
	for _, none := range []int64{0, -1} {
		if err := newMemory(none).full(); err != nil {
			t.Errorf("%d: %v", none, err)
		}
	}
	runtime.GC()
	if n, all := liveHeap(), allocated(); n <= 0 || all < n || n > 1<<40 {
		t.Errorf("%d bytes are in use, %d were made", n, all)
	}
}

// TestFull fills the memory with one call under way. It would catch a result that is refused then, and something new that is not.
func TestFull(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		tool, key, url := w.pending()
		live := int64(0)
		w.rt.memory.limit, w.rt.memory.live, w.rt.memory.free = 100, func() int64 { return live }, func() {}
		live = 95
		if _, err := w.rt.Call(t.Context(), Request{GroupID: "g", ID: "2", Operation: "echo"}); !errors.Is(err, ErrFull) {
			t.Errorf("a call: %v", err)
		}
		if status := w.post(url, result(key, "a")); status != 200 {
			t.Errorf("the result is answered %d", status)
		}
		if r, err := w.rt.Await(t.Context(), key); err != nil || r.Cause != agentproto.ByResult {
			t.Errorf("%+v, %v", r, err)
		}
		live = 80
		w.call("g", "2")
		if n := len(tool.invocations()); n != 2 {
			t.Errorf("%d invocations, want 2", n)
		}
	})
}
