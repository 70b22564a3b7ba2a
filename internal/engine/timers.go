package engine

import (
	"time"

	"github.com/millrace/millrace/internal/timer"
)

// A timerQueue is the pending timers of one operator.
type timerQueue interface {
	next() (at int64, ok bool)
	expire(now int64) // push what is due, in order of deadlines
}

// An idleQueue is a timerQueue whose timers a site does not wait for to end.
type idleQueue interface {
	timerQueue
	idle()
}

// arm makes sure that the site wakes up at the earliest deadline.
func (s *Site) arm() {
	s.rearm = false
	if s.g.driven() {
		return
	}
	next, awaited := none, none
	for _, q := range s.timers {
		at, ok := q.next()
		if !ok {
			continue
		}
		next = min(next, at)
		if _, idle := q.timerQueue.(idleQueue); !idle {
			awaited = min(awaited, at)
		}
	}
	s.armedFor = awaited // a timer behind it needs no arming, one behind an idle timer does
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaits = awaited != none
	if next >= s.armed || s.finished || s.stopping {
		return
	}
	s.armed = next
	d := max(time.Duration(next-int64(time.Since(s.epoch))-1), 0)
	if s.timer == nil {
		s.timer = time.AfterFunc(d, s.rang)
	} else {
		s.timer.Reset(d)
	}
}

// rang is called when the timer fired: that is a record of the history like any other.
func (s *Site) rang() {
	s.mu.Lock()
	s.armed = none
	if s.finished || s.stopping {
		s.mu.Unlock()
		return
	}
	s.due = true
	if s.token.notify() {
		s.settle(1)
		return
	}
	s.mu.Unlock()
}

// fire pushes the timers that are due, if one rang.
func (s *Site) fire() {
	if !s.timing {
		return
	}
	s.mu.Lock()
	due := s.due && !s.stopping
	s.due = false
	s.mu.Unlock()
	if !due {
		return
	}
	s.recorded.fired = true
	s.fireUntil(s.clock())
	s.rearm, s.armedFor = true, none
}

// index is a timer index: by duration where that is constant, else a wheel.
type index interface {
	Add(h uint32, at int64)
	Next() (at int64, ok bool)
	Expire(now int64, fire func(h uint32))
	Each(f func(h uint32, at int64))
	Len() int
}

// after is the state of an After operator: entries waiting for their time, in
// slots that the index knows by number.
type after[K comparable, V any] struct {
	site  *Site
	make  func() index
	idx   index
	k     []K
	v     []V
	h     []uint64
	free  []uint32
	out   *KNode[K, V]
	due   columns[K, V]
	batch Batch[K, V]
	fired func(h uint32)
}

// After returns the entries of n, each delay after it appeared: a constant one, or
// one for each entry if each is not nil.
func After[K comparable, V any](n *KNode[K, V], op *Op, delay time.Duration, each func(V) time.Duration) *KNode[K, V] {
	h := Same(op.Name, n)
	if h.region == &h.site.starts {
		h.region = nil // what comes of constants comes later
	}
	if h.region != nil {
		Misuse(op.Name, "nothing changes later inside %s", h.region)
	}
	h.deps, h.loops = nil, nil // a firing is a record, so that what follows is no feedback of a slice into itself
	a := &after[K, V]{site: h.site, out: NewKNode[K, V](h)}
	a.make = func() index { return timer.NewFIFO() }
	if each != nil {
		a.make = func() index { return timer.NewWheel() }
	}
	a.clear()
	op.keeps(timersState[K, V]{a, plain[K](op), plain[V](op)})
	a.fired = func(slot uint32) {
		var zeroK K
		var zeroV V
		a.due.k = append(a.due.k, a.k[slot])
		a.due.v = append(a.due.v, a.v[slot])
		a.due.h = append(a.due.h, a.h[slot])
		a.k[slot], a.v[slot] = zeroK, zeroV
		a.free = append(a.free, slot)
	}
	h.site.timed(a, op)
	h.site.clocked(h.part)
	hash := hasher[K]()
	var hs []uint64
	var cur *Batch[K, V]
	op.key = func() any { return cur.K[op.at] }
	n.To(func(b *Batch[K, V]) {
		op.enter()
		cur = b
		now := a.site.clock()
		for i, h := range b.hashes(hash, &hs) {
			d := delay
			if each != nil {
				op.at = i
				d = each(b.V[i])
			}
			at := now + int64(max(d, 0))
			if a.site.g.driven() {
				a.site.alarm(int64(max(d, 0)), at)
			}
			a.idx.Add(a.slot(b.K[i], b.V[i], h), at)
			if at < a.site.armedFor { // else the site wakes up in time anyway
				a.site.rearm = true
			}
		}
	})
	return a.out
}

// clear forgets all timers.
func (a *after[K, V]) clear() {
	a.idx, a.k, a.v, a.h, a.free = a.make(), nil, nil, nil, nil
}

// slot stores an entry and returns its number.
func (a *after[K, V]) slot(k K, v V, h uint64) uint32 {
	if n := len(a.free); n > 0 {
		slot := a.free[n-1]
		a.free = a.free[:n-1]
		a.k[slot], a.v[slot], a.h[slot] = k, v, h
		return slot
	}
	a.k, a.v, a.h = append(a.k, k), append(a.v, v), append(a.h, h)
	return uint32(len(a.k) - 1)
}

func (a *after[K, V]) next() (int64, bool) { return a.idx.Next() }

func (a *after[K, V]) expire(now int64) {
	a.idx.Expire(now, a.fired)
	a.due.pushBlocks(a.out, &a.batch)
	clear(a.due.k)
	clear(a.due.v)
	a.due = columns[K, V]{a.due.k[:0], a.due.v[:0], a.due.h[:0]}
}
