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
	made  func() int64 // bytes that were ever allocated
	free  func()       // collects garbage
	now   func() time.Time

	mu        sync.Mutex
	collected time.Time // when garbage was collected because there was no room
	by        int64     // what made said then
	found     bool      // there was room then
}

func newMemory(limit int64) *memory {
	return &memory{limit: max(0, limit), live: liveHeap, made: allocated, free: runtime.GC, now: time.Now}
}

// liveHeap returns how many bytes the last collection of garbage found in use.
func liveHeap() int64 { return read("/gc/heap/live:bytes") }

// allocated returns how many bytes were ever allocated.
func allocated() int64 { return read("/gc/heap/allocs:bytes") }

func read(metric string) int64 {
	sample := []metrics.Sample{{Name: metric}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// Garbage that was collected because there was no room is collected again after a while and, if that has made room, when some was made
// since: much of it is garbage again, and what was made while the collector worked it has found in use.
const (
	collectAgain   = 5 * time.Second
	collectAgainBy = 16 << 20
)

// full returns an [ErrFull] if there is no room.
func (m *memory) full() error {
	if m.limit == 0 || m.live() < m.limit/10*9 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if now, by := m.now(), m.made(); now.Sub(m.collected) >= collectAgain || m.found && by-m.by >= collectAgainBy {
		m.free()
		m.collected, m.by = now, by
		m.found = m.live() < m.limit/10*9
	}
	live := m.live()
	if live < m.limit/10*9 {
		return nil
	}
	return fmt.Errorf("%w: %d MiB of the %d MiB of Bounds.Memory are used; close sessions, or wait until what is over is forgotten", ErrFull, live>>20, m.limit>>20)
}
