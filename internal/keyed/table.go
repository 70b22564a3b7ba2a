package keyed

import (
	"iter"
	"math"
	"unsafe"
)

const (
	chunkBits = 8
	chunkLen  = 1 << chunkBits // entries allocated together
)

// An entry is a key and its value. The value comes first: a last field of size
// zero would be padded.
type entry[K comparable, V any] struct {
	v V
	k K
}

// A Table maps keys to values. Every method that takes a key takes the key's
// hash too, from one [Hasher] for all calls on a table. A table belongs to one
// goroutine.
//
// It maintains:
//
//  1. an entry's number is below next; it is live, or dead and in free,
//  2. each live entry is in exactly one slot of the index or in its spill,
//  3. a dead entry is the zero entry, so that it keeps no memory alive,
//  4. live + len(free) == next, and next is 0 when live is.
type Table[K comparable, V any] struct {
	index  index
	spill  map[K]uint32 // keys whose segment is full and cannot split
	chunks []*[chunkLen]entry[K, V]
	next   uint32   // entry numbers given out
	live   uint32   // of these, in use
	free   []uint32 // the others, last freed last
	dead   []uint64 // the same as a bit set
}

// NewTable returns an empty table.
func NewTable[K comparable, V any]() *Table[K, V] {
	t := new(Table[K, V])
	t.index.init()
	return t
}

// Len returns the number of entries.
func (t *Table[K, V]) Len() int { return int(t.live) }

func (t *Table[K, V]) entry(i uint32) *entry[K, V] {
	return &t.chunks[i>>chunkBits][i%chunkLen]
}

// Put returns the value of k, adding a zero value if k has none. The pointer is
// good until k is deleted or the table cleared.
func (t *Table[K, V]) Put(k K, h uint64) (v *V, added bool) {
	_, v, added = t.PutIndex(k, h)
	return v, added
}

// PutIndex is [Table.Put] and returns the number of the entry as well, which is
// its own while it lives. Numbers are dense: the last one freed is the next one
// taken.
func (t *Table[K, V]) PutIndex(k K, h uint64) (i uint32, v *V, added bool) {
	tag := h >> 32
	base, mask := t.index.dir[h>>(t.index.shift&63)], t.index.mask
	for p := tag; ; p++ {
		x := *(*uint64)(unsafe.Add(base, p&mask*slotBytes))
		if x>>32 == tag {
			// Where the tag is 0, x may be an empty slot.
			if i := uint32(x) - 1; i < t.next {
				if e := t.entry(i); e.k == k {
					return i, &e.v, false
				}
			}
		}
		if x == 0 {
			return t.add(k, h)
		}
	}
}

// Get returns the value of k, or nil.
func (t *Table[K, V]) Get(k K, h uint64) *V {
	_, v := t.GetIndex(k, h)
	return v
}

// GetIndex returns the value of k and the number of its entry. The value is nil
// if k has none.
func (t *Table[K, V]) GetIndex(k K, h uint64) (i uint32, v *V) {
	tag := h >> 32
	base, mask := t.index.dir[h>>(t.index.shift&63)], t.index.mask
	for p := tag; ; p++ {
		x := *(*uint64)(unsafe.Add(base, p&mask*slotBytes))
		if x>>32 == tag {
			if i := uint32(x) - 1; i < t.next {
				if e := t.entry(i); e.k == k {
					return i, &e.v
				}
			}
		}
		if x == 0 {
			break
		}
	}
	if t.spill != nil {
		if i, ok := t.spill[k]; ok {
			return i, &t.entry(i).v
		}
	}
	return 0, nil
}

// At returns the entry with number i, if it lives.
func (t *Table[K, V]) At(i uint32) (k K, v *V, ok bool) {
	if i >= t.next || t.isDead(i) {
		return k, nil, false
	}
	e := t.entry(i)
	return e.k, &e.v, true
}

func (t *Table[K, V]) isDead(i uint32) bool {
	w := int(i >> 6)
	return w < len(t.dead) && t.dead[w]>>(i&63)&1 != 0
}

// add enters k, which has no slot in the index.
func (t *Table[K, V]) add(k K, h uint64) (uint32, *V, bool) {
	if t.spill != nil {
		if i, ok := t.spill[k]; ok {
			return i, &t.entry(i).v, false
		}
	}
	i := t.take()
	e := t.entry(i)
	e.k = k
	for _, lost := range t.index.insert(h>>32<<32 | uint64(i+1)) {
		t.spillKey(uint32(lost) - 1)
	}
	return i, &e.v, true
}

// take returns the number of an unused entry.
func (t *Table[K, V]) take() uint32 {
	t.live++
	if n := len(t.free); n > 0 {
		i := t.free[n-1]
		t.free = t.free[:n-1]
		t.dead[i>>6] &^= 1 << (i & 63)
		return i
	}
	i := t.next
	if i == math.MaxUint32 {
		panic("keyed: Table: more than 2^32-1 entries")
	}
	if int(i>>chunkBits) == len(t.chunks) {
		t.chunks = append(t.chunks, new([chunkLen]entry[K, V]))
	}
	t.next++
	return i
}

// spillKey remembers entry i outside the index. The builtin map has a hash of
// its own, so keys that collide here do not collide there.
func (t *Table[K, V]) spillKey(i uint32) {
	if t.spill == nil {
		t.spill = make(map[K]uint32)
	}
	t.spill[t.entry(i).k] = i
}

// Delete removes k and reports whether it was there. Memory is kept for keys to
// come.
func (t *Table[K, V]) Delete(k K, h uint64) bool {
	tag := h >> 32
	base, mask := t.index.dir[h>>(t.index.shift&63)], t.index.mask
	for p := tag; ; p++ {
		x := *(*uint64)(unsafe.Add(base, p&mask*slotBytes))
		if x>>32 == tag {
			if i := uint32(x) - 1; i < t.next && t.entry(i).k == k {
				t.index.remove(h, p&mask)
				t.drop(i)
				return true
			}
		}
		if x == 0 {
			break
		}
	}
	if i, ok := t.spill[k]; ok {
		delete(t.spill, k)
		if len(t.spill) == 0 {
			t.spill = nil
		}
		t.drop(i)
		return true
	}
	return false
}

// drop frees entry i, which has no slot any more.
func (t *Table[K, V]) drop(i uint32) {
	*t.entry(i) = entry[K, V]{}
	t.live--
	if t.live == 0 {
		t.next = 0
		t.free = t.free[:0]
		clear(t.dead)
		return
	}
	t.free = append(t.free, i)
	for w := int(i >> 6); w >= len(t.dead); {
		t.dead = append(t.dead, 0)
	}
	t.dead[i>>6] |= 1 << (i & 63)
}

// clearKeep is the memory up to which Clear keeps what the table grew to.
const clearKeep = 1 << 20

// Clear removes all entries. It keeps memory that was used since the last Clear
// if it is little enough to be cleared sooner than allocated.
func (t *Table[K, V]) Clear() {
	held := len(t.chunks) * chunkLen
	if t.Bytes() > clearKeep || held > chunkLen && int(t.next) < held/8 {
		*t = Table[K, V]{}
		t.index.init()
		return
	}
	for c := range (t.next + chunkLen - 1) / chunkLen {
		clear(t.chunks[c][:min(chunkLen, t.next-c*chunkLen)])
	}
	t.index.clear()
	t.spill = nil
	t.next, t.live = 0, 0
	t.free = t.free[:0]
	clear(t.dead)
}

// Touch loads the slots where the search for each hash begins, so that their
// cache misses overlap. It does nothing while the table fits in the cache. It
// serves best with some 16 hashes at a time.
func (t *Table[K, V]) Touch(hs []uint64) { t.index.touch(hs) }

// All returns the entries by number: in the order they were added, as long as
// none was deleted. Entries may be deleted on the way; whether entries added on
// the way are met is determined by their number.
func (t *Table[K, V]) All() iter.Seq2[K, *V] {
	return func(yield func(K, *V) bool) {
		for i := uint32(0); i < t.next; i++ {
			if t.isDead(i) {
				continue
			}
			e := t.entry(i)
			if !yield(e.k, &e.v) {
				return
			}
		}
	}
}

// Bytes returns the memory held, without what keys and values point to. It is
// for people to look at: it depends a little on the hashes.
func (t *Table[K, V]) Bytes() uint64 {
	var e entry[K, V]
	n := t.index.bytes()
	n += uint64(len(t.chunks))*chunkLen*uint64(unsafe.Sizeof(e)) + 8*uint64(cap(t.chunks))
	n += 4*uint64(cap(t.free)) + 8*uint64(cap(t.dead))
	n += 2 * uint64(len(t.spill)) * uint64(unsafe.Sizeof(e.k)+5)
	return n
}
