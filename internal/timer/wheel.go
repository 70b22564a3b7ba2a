package timer

import (
	"math"
	"math/bits"
)

const (
	digit   = 6 // bits of a deadline per level
	buckets = 1 << digit
	levels  = (64 + digit - 1) / digit
	late    = levels*buckets + 1 // head of the list of due timers
)

// A Wheel is an index of timers with any deadlines. Add and Cancel take constant
// time, and each timer moves at most once from level to level before it fires.
//
// Consider a deadline as a number of eleven digits in base 64. A timer is in the
// level of the highest digit in which its deadline differs from the present, in
// the bucket of that digit. When the present reaches a bucket, its timers move
// to lower levels. At level 0 a bucket is one deadline.
//
// A wheel maintains:
//
//  1. a timer with a deadline after now is in the bucket described,
//  2. all others are in the queue of the late,
//  3. a bucket lists timers of equal deadlines in order of insertion,
//  4. bit b of used[l] is set exactly when bucket b of level l has a timer.
type Wheel struct {
	lists lists
	late  queue
	used  [levels]uint64
	now   uint64 // the present, as a key
	live  int
}

// NewWheel returns an empty wheel.
func NewWheel() *Wheel {
	return &Wheel{lists: newLists(late), late: queue{head: late}}
}

// key maps deadlines to unsigned numbers in the same order.
func key(at int64) uint64 { return uint64(at) ^ 1<<63 }

// Len returns the number of pending timers.
func (w *Wheel) Len() int { return w.live }

// Add sets the timer h to fire at the time at.
func (w *Wheel) Add(h uint32, at int64) {
	i, fresh := w.lists.enter(h)
	if fresh {
		w.live++
	} else {
		w.unlink(i)
	}
	w.lists.node(i).at = at
	w.link(i, at)
}

// Cancel cancels the timer h. It returns false if h is not pending.
func (w *Wheel) Cancel(h uint32) bool {
	i, ok := w.lists.find(h)
	if ok {
		w.unlink(i)
		w.lists.leave(i)
		w.live--
	}
	return ok
}

// At returns the deadline of the timer h, which is pending or is being fired.
func (w *Wheel) At(h uint32) int64 { return w.lists.node(h + w.lists.heads + 1).at }

// link inserts node i, with deadline at, into the list where it belongs.
func (w *Wheel) link(i uint32, at int64) {
	k := key(at)
	if k <= w.now {
		w.late.add(&w.lists, i)
		return
	}
	level := (63 - bits.LeadingZeros64(k^w.now)) / digit
	b := k >> (level * digit) % buckets
	w.used[level] |= 1 << b
	w.lists.link(i, w.lists.node(head(level, b)).prev)
}

func head(level int, bucket uint64) uint32 { return uint32(level*buckets) + uint32(bucket) + 1 }

func (w *Wheel) unlink(i uint32) {
	if e := w.lists.unlink(i); e != 0 && e != late {
		w.used[(e-1)/buckets] &^= 1 << ((e - 1) % buckets)
	}
}

// ahead returns the first bucket after now and the key at which it begins.
func (w *Wheel) ahead() (level int, bucket, begin uint64, ok bool) {
	// A bucket of a lower level is before all of a higher one.
	for level := range levels {
		here := w.now >> (level * digit)
		if u := w.used[level] &^ (2<<(here%buckets) - 1); u != 0 {
			b := uint64(bits.TrailingZeros64(u))
			return level, b, (here&^(buckets-1) | b) << (level * digit), true
		}
	}
	return 0, 0, 0, false
}

// Next returns the earliest deadline, if any timer is pending. If many timers
// lie between it and now, Next returns instead an earlier time that is after
// now. Calling Expire at the times that Next returns always leads to the
// deadline.
func (w *Wheel) Next() (at int64, ok bool) {
	if i, ok := w.late.first(&w.lists); ok {
		return w.lists.node(i).at, true
	}
	level, b, begin, ok := w.ahead()
	if !ok {
		return 0, false
	}
	at = math.MaxInt64
	first := head(level, b)
	i := w.lists.node(first).next
	for n := 0; i != first; n++ {
		if n == patience {
			return int64(begin ^ 1<<63), true
		}
		at = min(at, w.lists.node(i).at)
		i = w.lists.node(i).next
	}
	return at, true
}

// Expire fires all timers whose deadline is now or earlier. They are no longer
// pending when they fire.
func (w *Wheel) Expire(now int64, fire func(h uint32)) {
	for {
		i, ok := w.late.first(&w.lists)
		if ok && w.lists.node(i).at <= now {
			w.lists.unlink(i)
			w.live--
			fire(w.lists.handle(i))
			w.lists.leave(i)
		} else if !w.advance(key(now)) {
			return
		}
	}
}

// advance moves the present to the next bucket, but not past limit, and moves
// the bucket's timers to where they belong then. It returns false if there is no
// such bucket.
func (w *Wheel) advance(limit uint64) bool {
	if limit <= w.now {
		return false
	}
	level, b, begin, ok := w.ahead()
	if !ok || begin > limit {
		w.now = limit
		return false
	}
	w.now = begin
	w.used[level] &^= 1 << b
	first := head(level, b)
	h := w.lists.node(first)
	i := h.next
	h.next, h.prev = first, first
	for i != first {
		n := w.lists.node(i)
		next := n.next
		w.link(i, n.at)
		i = next
	}
	return true
}
