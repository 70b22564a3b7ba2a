// Package memlimit limits the memory of a process by refusing new work: see [Limiter].
package memlimit

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/metrics"
	"sync"
	"time"
)

// ErrFull is wrapped by the error of [Limiter.Full].
var ErrFull = errors.New("host: there is no memory for more")

// A Limiter decides whether there is memory for new work. It uses the garbage collector's measurements, because nothing else
// knows how much histories, results, buffers and indexes use together.
type Limiter struct {
	Limit int64        // zero for none
	Live  func() int64 // bytes in use
	made  func() int64 // bytes allocated so far
	Free  func()       // collects garbage
	now   func() time.Time

	mu        sync.Mutex
	collected time.Time // when garbage was last collected for lack of memory
	by        int64     // what made returned after that
	used      int64     // bytes in use then, without what was allocated during that collection
}

// New returns a Limiter of limit bytes; zero means no limit.
func New(limit int64) *Limiter {
	return &Limiter{Limit: max(0, limit), Live: LiveHeap, made: allocated, Free: runtime.GC, now: time.Now}
}

// LiveHeap returns how many bytes the last garbage collection found in use.
func LiveHeap() int64 { return read("/gc/heap/live:bytes") }

// allocated returns how many bytes were allocated so far.
func allocated() int64 { return read("/gc/heap/allocs:bytes") }

func read(metric string) int64 {
	sample := []metrics.Sample{{Name: metric}}
	metrics.Read(sample)
	return int64(sample[0].Value.Uint64())
}

// After a garbage collection for lack of memory, the next one runs after a while or, if the last one freed enough, after this many
// bytes were allocated.
const (
	collectAgain   = 5 * time.Second
	collectAgainBy = 16 << 20
)

// Full returns an error that wraps [ErrFull] if nine tenths of the limit are in use.
func (m *Limiter) Full() error {
	if m.Limit == 0 || m.Live() < m.Limit/10*9 {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	most := m.Limit / 10 * 9
	if now, since := m.now(), m.made()-m.by; now.Sub(m.collected) >= collectAgain || m.used < most && since >= collectAgainBy {
		before := m.made()
		m.Free()
		// The collector counts what was allocated during its run as in use, and most of that is garbage by now.
		m.collected, m.by = now, m.made()
		m.used = m.Live() - (m.by - before)
	}
	used := m.used + m.made() - m.by
	if used < most {
		return nil
	}
	return fmt.Errorf("%w: %d MiB of the %d MiB of Bounds.Memory are used; close sessions, or wait until what is over is forgotten", ErrFull, used>>20, m.Limit>>20)
}
