package engine

import "time"

// A timerQueue is the pending timers of one operator.
type timerQueue interface {
	next() (at int64, ok bool)
	running() int     // how many are set
	expire(now int64) // push what is due, in order of deadlines
	skip(now int64)   // leave out firings that were missed and do not count
	idle() bool       // whether the location may end without it
}

// everyTimer is a timerQueue of which each timer counts: none is left out, and the location
// does not end before the last one.
type everyTimer struct{}

func (everyTimer) skip(int64) {}
func (everyTimer) idle() bool { return false }

// after is an After operator: entries that wait for their time.
type after[K comparable, V any] struct {
	everyTimer
	*pending[K, V]
	site  *Site
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
	a.pending = newPending[K, V](remember(op, &h), each == nil)
	op.holds(&a.due)
	op.scratch(&a.batch)
	a.fired = func(slot uint32) {
		k, v, h := a.take(slot)
		a.due.k, a.due.v, a.due.h = append(a.due.k, k), append(a.due.v, v), append(a.due.h, h)
	}
	h.site.timed(a, op)
	h.site.clocked(h.part)
	hash := hasher[K]()
	var hs []uint64
	op.scratch(&hs)
	c, cur := track(op, n, func(b *Batch[K, V]) {
		now := a.site.clock()
		for i, h := range b.hashes(hash, &hs) {
			d := delay
			if each != nil {
				op.at = i
				d = each(b.V[i])
			}
			at := now + int64(max(d, 0))
			if a.site.alarm != nil {
				a.site.alarm(int64(max(d, 0)), at)
			}
			a.idx.Add(a.slot(b.K[i], b.V[i], h), at)
			if at < a.site.armedFor { // else the site wakes up in time anyway
				a.site.rearm = true
			}
		}
	})
	c.one = func(k K, v V, kh uint64) {
		cur.enter(k)
		if kh == 0 {
			kh = hash.Hash(k)
		}
		d := delay
		if each != nil {
			d = each(v)
		}
		at := a.site.clock() + int64(max(d, 0))
		if a.site.alarm != nil {
			a.site.alarm(int64(max(d, 0)), at)
		}
		a.idx.Add(a.slot(k, v, kh), at)
		if at < a.site.armedFor {
			a.site.rearm = true
		}
	}
	return a.out
}

func (a *after[K, V]) next() (int64, bool) { return a.idx.Next() }

func (a *after[K, V]) expire(now int64) {
	a.idx.Expire(now, a.fired)
	a.due.pushBlocks(a.out, &a.batch)
	clear(a.due.k)
	clear(a.due.v)
	a.due = columns[K, V]{a.due.k[:0], a.due.v[:0], a.due.h[:0]}
}
