// Package room says whether there is memory for something new: see [Room].
package room

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// ErrFull is wrapped by what [Room.Full] returns.
var ErrFull = errors.New("host: there is no memory for more")

// A Room says whether there is room for what is new. It measures what the garbage collector found in use, since nothing
// else knows what histories, results, buffers and indexes take together.
type Room struct {
	Limit int64        // zero is none
	Live  func() int64 // bytes in use
	made  func() int64 // bytes that were ever allocated
	Free  func()       // collects garbage
	now   func() time.Time

	mu        sync.Mutex
	collected time.Time // when garbage was collected because there was no room
	by        int64     // what made said when that was over
	used      int64     // what was in use when it began
}

// New returns a Room of so many bytes; zero is no limit.
func New(limit int64) *Room {
	return &Room{Limit: max(0, limit), Live: LiveHeap, made: allocated, Free: runtime.GC, now: time.Now}
}

// LiveHeap returns how many bytes the last collection of garbage found in use.
func LiveHeap() int64 { return read("/gc/heap/live:bytes") }

// allocated returns how many bytes were ever allocated.
func allocated() int64 { return read("/gc/heap/allocs:bytes") }

func read(metric string) int64 {
	sample := []metrics.Sample{{Name: metric}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// Garbage that was collected because there was no room is collected again after a while and, if that has made room, when some was made
// since.
const (
	collectAgain   = 5 * time.Second
	collectAgainBy = 16 << 20
)

// Full returns an [ErrFull] if there is no room.
func (m *Room) Full() error {
	if m.Limit == 0 || m.Live() < m.Limit/10*9 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	most := m.Limit / 10 * 9
	if now, since := m.now(), m.made()-m.by; now.Sub(m.collected) >= collectAgain || m.used < most && since >= collectAgainBy {
		before := m.made()
		m.Free()
		// The collector counts what was made while it worked as in use, and most of that is garbage by now.
		m.collected, m.by = now, m.made()
		m.used = m.Live() - (m.by - before)
	}
	used := m.used + m.made() - m.by
	if used < most {
		return nil
	}
	return fmt.Errorf("%w: %d MiB of the %d MiB of Bounds.Memory are used; close sessions, or wait until what is over is forgotten", ErrFull, used>>20, m.Limit>>20)
}
