package memlimit

import (
	"errors"
	"runtime"
	"testing"
	"time"
)

// TestMemory catches calls that are refused because of garbage, a garbage collection for each of them, and a runtime that accepts
// no calls for an unbounded time.
func TestMemory(t *testing.T) {
	now, live, garbage, made, during, collected := time.Unix(1000, 0), int64(0), int64(0), int64(1<<40), int64(0), 0
	m := New(100 << 20)
	m.made = func() int64 { return made }
	m.Live, m.now = func() int64 { return live + garbage }, func() time.Time { return now }
	m.Free = func() { garbage, made, collected = 0, made+during, collected+1 }
	for _, x := range []struct {
		after     time.Duration
		live      int64 // MiB
		garbage   int64
		made      int64 // since the one before
		during    int64 // made while garbage is collected
		full      bool
		collected int
	}{
		{0, 89, 0, 0, 0, false, 0},
		{0, 85, 9, 0, 0, false, 1},
		{4 * time.Second, 85, 9, 4, 0, false, 1}, // the limit is not reached even if all that was allocated since is live
		{0, 85, 9, 2, 0, true, 1},                // it is reached now: it may be garbage, which is checked later
		{time.Second, 85, 9, 0, 0, false, 2},
		{time.Second, 85, 9, 15, 0, true, 2},
		{0, 85, 9, 1, 0, false, 3}, // or after some more was allocated
		{time.Minute, 95, 0, 0, 0, true, 4},
		{time.Second, 95, 0, 100, 0, true, 4},    // which does not help if too little was freed
		{time.Minute, 100, 0, 100, 20, false, 5}, // what was allocated meanwhile counts as garbage
		{time.Second, 80, 0, 0, 0, false, 5},
	} {
		now, live, garbage, made = now.Add(x.after), x.live<<20, x.garbage<<20, made+x.made<<20
		during = x.during << 20
		if err := m.Full(); errors.Is(err, ErrFull) != x.full || collected != x.collected {
			t.Errorf("%+v: %v, collected %d times", x, err, collected)
		}
	}
	live = 1 << 40
	for _, none := range []int64{0, -1} {
		if err := New(none).Full(); err != nil {
			t.Errorf("%d: %v", none, err)
		}
	}
	runtime.GC()
	if n, all := LiveHeap(), allocated(); n <= 0 || all < n || n > 1<<40 {
		t.Errorf("%d bytes are in use, %d were made", n, all)
	}
}
