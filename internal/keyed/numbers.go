package keyed

import (
	"math"
	"unsafe"
)

// Numbers assigns numbers to the entries of a table. They are dense: the last one freed is the next one
// assigned. Numbers also say which entries have changed, if the table is saved; see saved.go.
//
// It maintains:
//
//  1. a number below next is live, or dead and in free,
//  2. live + len(free) == next, and next is 0 if live is.
type Numbers struct {
	saved *saved   // nil if the table is not saved
	next  uint32   // number of assigned numbers
	live  uint32   // of these, in use
	free  []uint32 // the others, last freed last
	dead  []uint64 // the same as a bit set

	was unsafe.Pointer // the table with the entries of the current cut, if it was emptied since
}

// Len returns the number of entries.
func (n *Numbers) Len() int { return int(n.live) }

func (n *Numbers) isDead(i uint32) bool {
	w := int(i >> 6)
	return w < len(n.dead) && n.dead[w]>>(i&63)&1 != 0
}

// top returns the number that is assigned next, or none.
func (n *Numbers) top() uint32 {
	if l := len(n.free); l > 0 {
		return n.free[l-1]
	}
	return none
}

// take assigns a number.
func (n *Numbers) take() uint32 {
	s := n.saved
	n.live++
	if l := len(n.free); l > 0 {
		i := n.free[l-1]
		if s != nil {
			s.marks.Change(i)
		}
		n.free = n.free[:l-1]
		n.dead[i>>6] &^= 1 << (i & 63)
		return i
	}
	i := n.next
	if i == math.MaxUint32 {
		panic("keyed: Table: more than 2^32-1 entries")
	}
	if s != nil {
		s.marks.Change(i)
	}
	n.next++
	return i
}

// What dropping a number leaves.
type left uint8

const (
	someLive    left = iota
	noneLives        // in the whole table; the number was not added to the free ones
	chunkIsDead      // the chunk of the number may have no live entry; see allDead
)

// drop frees a number.
func (n *Numbers) drop(i uint32) left {
	n.live--
	if n.live == 0 {
		return noneLives
	}
	n.free = append(n.free, i)
	for w := int(i >> 6); w >= len(n.dead); {
		n.dead = append(n.dead, 0)
	}
	dead := &n.dead[i>>6]
	if *dead |= 1 << (i & 63); *dead == ^uint64(0) {
		return chunkIsDead
	}
	return someLive
}

// allDead reports whether all numbers of chunk c were assigned and are dead.
func (n *Numbers) allDead(c uint32) bool {
	first := int(c) * (chunkLen / 64)
	if first+chunkLen/64 > len(n.dead) {
		return false // some of its numbers were not assigned
	}
	for _, w := range n.dead[first : first+chunkLen/64] {
		if w != ^uint64(0) {
			return false
		}
	}
	return true
}

// restart assigns numbers from 0 again.
func (n *Numbers) restart() {
	n.next, n.live = 0, 0
	n.free = n.free[:0]
	clear(n.dead)
}

func (n *Numbers) bytes() uint64 { return 4*uint64(cap(n.free)) + 8*uint64(cap(n.dead)) }
