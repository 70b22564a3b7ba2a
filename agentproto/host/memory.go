package host

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// ErrFull is returned by [Runtime.Call] and [Runtime.OpenSession] when nine tenths of [Bounds].Memory are
// used. Calls that were made before go on.
var ErrFull = errors.New("host: there is no memory for more")

// A memory says whether there is room for what is new. It measures what the garbage collector found in use, since nothing
// else knows what histories, results, buffers and indexes take together.
type memory struct {
	limit int64        // zero is none
	live  func() int64 // bytes in use
	free  func()       // collects garbage
	now   func() time.Time

	mu        sync.Mutex
	collected time.Time // garbage, because there was no room
}

func newMemory(limit int64) *memory {
	return &memory{limit: max(0, limit), live: liveHeap, free: runtime.GC, now: time.Now}
}

// liveHeap returns how many bytes the last collection of garbage found in use.
func liveHeap() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// collectAgain is how long garbage is not collected again that was collected because there was no room: the collector
// does it by itself when much was made, and nothing new is when nothing is taken.
const collectAgain = 5 * time.Second

// full returns an [ErrFull] if there is no room.
func (m *memory) full() error {
	if m.limit == 0 || m.live() < m.limit/10*9 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.now(); now.Sub(m.collected) >= collectAgain {
		m.free()
		m.collected = now
	}
	live := m.live()
	if live < m.limit/10*9 {
		return nil
	}
	return fmt.Errorf("%w: %d MiB of the %d MiB of Bounds.Memory are used; close sessions, or wait until what is over is forgotten", ErrFull, live>>20, m.limit>>20)
}
