package durable

import (
	"sync"
	"time"
)

// waits limits what is logged of refusals by the log: the first refusal, then at most once a minute their
// number, and when the operation goes on. A line for each refusal would often go to the very disk that is full.
type waits struct {
	mu sync.Mutex
	of map[waiting]*refusalLog
}

// A waiting says what waits, and in which partition.
type waiting struct {
	what      string
	partition int
}

// A refusalLog counts the refusals of a waiting.
type refusalLog struct {
	waiters  int       // operations that were refused and have not gone on
	since    time.Time // when the first of them was refused
	loggedAt time.Time // when a refusal was last logged
	logged   bool      // a refusal was logged since then
	refusals int       // refusals that were not logged
}

// A waiter is one operation that is retried. It belongs to one goroutine.
type waiter struct {
	c       *core
	key     waiting
	refused bool
}

func (c *core) waiter(what string, partition int) waiter {
	return waiter{c: c, key: waiting{what, partition}}
}

// failed notes that the operation was refused. The arguments are those of the log line.
func (w *waiter) failed(line string, err error, args ...any) {
	s := &w.c.waits
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.of[w.key]
	if r == nil {
		r = new(refusalLog)
		if s.of == nil {
			s.of = make(map[waiting]*refusalLog)
		}
		s.of[w.key] = r
	}
	now := time.Now()
	if !w.refused {
		w.refused = true
		if r.waiters++; r.waiters == 1 {
			r.since, r.logged = now, false
		}
	}
	r.refusals++
	if !r.loggedAt.IsZero() && now.Sub(r.loggedAt) < fullAgain {
		return
	}
	w.c.opts.Logger.Error(w.key.what+" "+line, append([]any{"partition", w.key.partition, "error", err, "refusals", r.refusals}, args...)...)
	r.loggedAt, r.logged, r.refusals = now, true, 0
}

// end notes that the operation goes on or was given up.
func (w *waiter) end() {
	if !w.refused {
		return
	}
	w.refused = false
	s := &w.c.waits
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.of[w.key]
	if r.waiters--; r.waiters == 0 && r.logged {
		w.c.opts.Logger.Info(w.key.what+" does not wait any longer", "partition", w.key.partition, "waited", time.Since(r.since), "refusals", r.refusals)
		r.refusals = 0
	}
}
