package durable

import (
	"sync"
	"time"
)

// waits say when the logger hears of what the log refuses: of the first refusal, then at most once
// a minute how many there were, and when it goes on. A line for each refusal would be written, all too
// often, to the very disk that has no room.
type waits struct {
	mu sync.Mutex
	of map[waiting]*refusing
}

// A waiting is what waits, and in which partition.
type waiting struct {
	what      string
	partition int
}

// A refusing is what is known of the refusals of a waiting.
type refusing struct {
	waiters  int       // that were refused and have not gone on
	since    time.Time // when the first of them was
	said     time.Time // when the logger heard of a refusal
	told     bool      // and that was since then
	refusals int       // that it has not heard of
}

// A waiter is one operation that is tried again and again. It belongs to one goroutine.
type waiter struct {
	c       *core
	key     waiting
	refused bool
}

func (c *core) waiter(what string, partition int) waiter {
	return waiter{c: c, key: waiting{what, partition}}
}

// failed notes that the operation was refused. The arguments are for the line that says so.
func (w *waiter) failed(line string, err error, args ...any) {
	s := &w.c.waits
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.of[w.key]
	if r == nil {
		r = new(refusing)
		if s.of == nil {
			s.of = make(map[waiting]*refusing)
		}
		s.of[w.key] = r
	}
	now := time.Now()
	if !w.refused {
		w.refused = true
		if r.waiters++; r.waiters == 1 {
			r.since, r.told = now, false
		}
	}
	r.refusals++
	if !r.said.IsZero() && now.Sub(r.said) < fullAgain {
		return
	}
	w.c.opts.Logger.Error(w.key.what+" "+line, append([]any{"partition", w.key.partition, "error", err, "refusals", r.refusals}, args...)...)
	r.said, r.told, r.refusals = now, true, 0
}

// end notes that the operation goes on, or was given up.
func (w *waiter) end() {
	if !w.refused {
		return
	}
	w.refused = false
	s := &w.c.waits
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.of[w.key]
	if r.waiters--; r.waiters == 0 && r.told {
		w.c.opts.Logger.Info(w.key.what+" does not wait any longer", "partition", w.key.partition, "waited", time.Since(r.since), "refusals", r.refusals)
		r.refusals = 0
	}
}
