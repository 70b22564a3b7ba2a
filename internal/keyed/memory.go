package keyed

import "unsafe"

// clearKeep is the amount of memory up to which a table keeps what it has.
const clearKeep = 1 << 20

// allocate sets chunk c, which may be the one after the last.
func allocate[K comparable, V any](t *Table[K, V], c int) {
	if c == len(t.chunks) {
		t.chunks = append(t.chunks, nil)
	}
	t.chunks[c] = chunk(t)
}

// chunk returns a chunk of zero entries.
func chunk[K comparable, V any](t *Table[K, V]) *[chunkLen]entry[K, V] {
	t.used++
	if n := len(t.spare); n > 0 {
		c := t.spare[n-1]
		t.spare[n-1] = nil
		t.spare = t.spare[:n-1]
		return c
	}
	return new([chunkLen]entry[K, V])
}

// release frees chunk c if none of its entries lives. The numbers stay free: a chunk is
// allocated again when the first of them is reused. One spare chunk is kept for each
// eight in use, so that a table whose keys come and go does not allocate.
//
//go:noinline
func release[K comparable, V any](t *Table[K, V], c uint32) {
	if !t.nums.allDead(c) || uint64(t.used+len(t.spare))*chunkBytes[K, V]() <= clearKeep {
		return
	}
	most := t.used/8 + 1
	if len(t.spare) < most {
		t.spare = append(t.spare, t.chunks[c])
	}
	t.chunks[c] = nil
	t.used--
	if n := len(t.spare); n > most {
		t.spare[n-1] = nil
		t.spare = t.spare[:n-1]
	}
}

func chunkBytes[K comparable, V any]() uint64 {
	return chunkLen * uint64(unsafe.Sizeof(entry[K, V]{}))
}

// restart assigns numbers from 0 again after the last entry was removed. It frees all
// memory if the table has more than a little and more than the minimum: a table that
// repeatedly has a single entry must not allocate. It also frees all memory if numbers
// have no chunk, as in a restored table.
func restart[K comparable, V any](t *Table[K, V]) {
	large := t.used < len(t.chunks) || len(t.chunks) > 1 && held(t) > clearKeep
	if t.nums.saved != nil {
		leave(t, large)
	}
	if large {
		reset(t)
		return
	}
	t.nums.restart()
}

// reset makes t a new table. If it was saved, it still is.
func reset[K comparable, V any](t *Table[K, V]) {
	*t = Table[K, V]{nums: Numbers{saved: t.nums.saved, was: t.nums.was}}
	t.index.init()
}

// Clear removes all entries. It keeps the memory that was used since the last Clear if
// clearing that takes less time than allocating it.
func (t *Table[K, V]) Clear() {
	large := held(t) > clearKeep
	if t.nums.saved != nil {
		leave(t, large)
	}
	held := len(t.chunks) * chunkLen
	if large || t.used < len(t.chunks) || held > chunkLen && int(t.nums.next) < held/8 {
		reset(t)
		return
	}
	for c := range (t.nums.next + chunkLen - 1) / chunkLen {
		clear(t.chunks[c][:min(chunkLen, t.nums.next-c*chunkLen)])
	}
	t.index.clear()
	t.spill = nil
	t.nums.restart()
}

// Bytes returns the memory held, without what keys and values point to. It is for
// display only, since it depends a little on the hashes.
func (t *Table[K, V]) Bytes() uint64 {
	n := held(t) + t.nums.saved.bytes()
	if was := t.nums.was; was != nil {
		n += held((*Table[K, V])(was))
	}
	return n
}

// held is [Table.Bytes] without the memory for saving the table.
func held[K comparable, V any](t *Table[K, V]) uint64 {
	n := t.index.bytes() + t.nums.bytes()
	n += uint64(t.used+len(t.spare))*chunkBytes[K, V]() + 8*uint64(cap(t.chunks)+cap(t.spare))
	n += 2 * uint64(len(t.spill)) * uint64(unsafe.Sizeof(*new(K))+5)
	return n
}
