package leak

import (
	"math/bits"
	"math/rand/v2"
	"sync/atomic"
)

// A window is up to 16 bytes of a text in comparable form, with the last byte lowest in b.
type window struct {
	a, b  uint64
	short int // number of bytes if fewer than 16; else 0
}

// shift returns the window one byte further on.
func (w window) shift(b byte) window {
	return window{a: w.a<<8 | w.b>>56, b: w.b<<8 | uint64(b)}
}

// last returns the last n bytes of a window of 16 bytes, where n is 8 to 15.
func (w window) last(n int) window {
	return window{a: w.a & (1<<(8*(n-8)) - 1), b: w.b}
}

// A table is a set of windows with a maximum size. One goroutine at a time inserts; any number of
// goroutines search at the same time, without a lock, since a slot is written once. The slot of a
// window depends on random numbers, so nobody can write a text that takes long to search.
type table struct {
	slots []slot // a power of two, at most half of them taken
	used  int
	// filter has two bits set in one word for each window, and at least 16 bits per window. It is
	// small enough to stay in a cache, and it rejects nearly everything that is not a window.
	filter []atomic.Uint64
	k0, k1 uint64
	// shorts has bit n set if there is a window of n bytes, n < 16.
	shorts atomic.Uint32
}

// A slot holds one window. It is free if both are zero, which they are for no window.
type slot struct{ a, b atomic.Uint64 }

// newTable returns an empty table with room for n windows and as many again.
func newTable(n int) *table {
	size := 1 << bits.Len(uint(max(64, 4*n)-1))
	return &table{slots: make([]slot, size), filter: make([]atomic.Uint64, size/8), k0: rand.Uint64(), k1: rand.Uint64()}
}

// insert adds a window. It reports false if there is no room.
func (t *table) insert(w window) bool {
	h := t.hash(w)
	at, found, _ := t.find(w, h)
	if !found {
		if 2*(t.used+1) > len(t.slots) {
			return false
		}
		t.used++
		t.slots[at].a.Store(w.a)
		t.slots[at].b.Store(w.b)
		word, mask := t.bits(h)
		word.Or(mask)
	}
	if w.short > 0 {
		t.shorts.Or(1 << w.short)
	}
	return true
}

func (t *table) hash(w window) uint64 {
	hi, lo := bits.Mul64(w.a^t.k0, w.b^t.k1)
	return hi ^ lo
}

// bits returns the word of the filter for a window, and its bits.
func (t *table) bits(h uint64) (word *atomic.Uint64, mask uint64) {
	return &t.filter[h>>20&uint64(len(t.filter)-1)], 1<<(h>>58) | 1<<(h>>52&63)
}

// has reports whether the table contains a window, and how many words it has looked at.
func (t *table) has(w window) (found bool, work int) {
	h := t.hash(w)
	if word, mask := t.bits(h); word.Load()&mask != mask {
		return false, 1
	}
	_, found, work = t.find(w, h)
	return found, 1 + work
}

// find returns the slot of a window, or the free slot for it, and how many slots it has looked at.
func (t *table) find(w window, h uint64) (at uint64, found bool, work int) {
	mask := uint64(len(t.slots) - 1)
	for at = h & mask; ; at = (at + 1) & mask {
		work++
		a, b := t.slots[at].a.Load(), t.slots[at].b.Load()
		if a == 0 && b == 0 {
			return at, false, work
		}
		if a == w.a && b == w.b {
			return at, true, work
		}
	}
}

// search reports whether a text contains a window, and how many words and slots it has looked at.
func (t *table) search(text []byte) (found bool, work int) {
	shorts := t.shorts.Load()
	var w window
	for _, b := range text {
		if b == '\n' || b == '\r' {
			continue
		}
		w = w.shift(comparable64(b))
		found, n := t.has(w)
		if work += n; found {
			return true, work
		}
		for left := shorts; left != 0; left &= left - 1 {
			found, n := t.has(w.last(bits.TrailingZeros32(left)))
			if work += n; found {
				return true, work
			}
		}
	}
	return false, work
}
