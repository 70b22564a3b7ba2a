package keyed

import (
	"math/bits"
	"unsafe"
)

// A Loader is a table that is being restored from its saved entries, in any order.
type Loader struct {
	all  map[uint32]*loadedPage
	at   uint32 // the last page that was used
	last *loadedPage
}

// A loadedPage is a page of a table that is being restored.
type loadedPage struct {
	entries unsafe.Pointer // a chunk of the table; nil while none lives
	live    page
	under   *[PageLen]uint32 // for free entries; nil if none is free
}

func (f *Loader) page(p uint32) *loadedPage {
	if f.last != nil && f.at == p {
		return f.last
	}
	if f.all == nil {
		f.all = make(map[uint32]*loadedPage)
	}
	if f.all[p] == nil {
		f.all[p] = new(loadedPage)
	}
	f.at, f.last = p, f.all[p]
	return f.last
}

// Live returns pointers to the key and the value of entry i, which lives. All calls for a loader are for
// tables of one type.
func Live[K comparable, V any](f *Loader, i uint32) (*K, *V) {
	p := f.page(i / PageLen)
	p.live[i%PageLen/64] |= 1 << (i % 64)
	if p.entries == nil {
		p.entries = unsafe.Pointer(new([chunkLen]entry[K, V]))
	}
	e := &(*[chunkLen]entry[K, V])(p.entries)[i%PageLen]
	return &e.k, &e.v
}

// Free records that number i is free, and that under is the free number below it; see
// [ImageOf].
func (f *Loader) Free(i, under uint32) {
	p := f.page(i / PageLen)
	if p.under == nil {
		p.under = new([PageLen]uint32)
	}
	p.under[i%PageLen] = under
}

// FreeBottom is [Loader.Free] for a number with no free number below it.
func (f *Loader) FreeBottom(i uint32) { f.Free(i, none) }

// Restore sets t, which must not be saved, to the table that f has loaded. Next is the count of assigned
// numbers, and top the free number to reuse first, if some is true. Restore reports whether the
// data is complete: each number is either a live entry or free, exactly once, and no key
// occurs twice. If it is not, t is unchanged.
func Restore[K comparable, V any](t *Table[K, V], f *Loader, next, top uint32, some bool, h *Hasher[K]) bool {
	gone := func(p *loadedPage, i int) { (*[chunkLen]entry[K, V])(p.entries)[i] = entry[K, V]{} }
	nums, ok := f.numbers(next, top, some, gone)
	if !ok {
		return false
	}
	to := &Table[K, V]{chunks: make([]*[chunkLen]entry[K, V], pages(next)), nums: nums}
	to.index.init()
	for p := range to.chunks {
		// A page without live entries has no chunk, unless some of its numbers are still to
		// be assigned.
		if from := f.all[uint32(p)]; from.live != (page{}) {
			to.chunks[p] = (*[chunkLen]entry[K, V])(from.entries)
			to.used++
		} else if p == len(to.chunks)-1 && next%chunkLen != 0 {
			to.chunks[p] = chunk(to)
		}
	}
	if !enter(to, h) {
		return false
	}
	*t = *to
	return true
}

// numbers returns the numbers of the restored table, and reports whether each is either live or
// free, exactly once. It calls gone for entries from before the numbers were assigned anew.
func (f *Loader) numbers(next, top uint32, some bool, gone func(p *loadedPage, i int)) (n Numbers, ok bool) {
	if pages(next) > len(f.all) {
		return n, false
	}
	n.next = next
	for p := range uint32(pages(next)) {
		from := f.all[p]
		if from == nil {
			return n, false
		}
		for w, there := range below(p, next) {
			for over := from.live[w] &^ there; over != 0; over &= over - 1 {
				gone(from, w*64+bits.TrailingZeros64(over))
			}
			from.live[w] &= there
			n.live += uint32(bits.OnesCount64(from.live[w]))
		}
	}
	return n, f.link(&n, top, some)
}

// link builds the list of free numbers.
func (f *Loader) link(n *Numbers, top uint32, some bool) bool {
	free := int(n.next - n.live)
	if some != (free > 0) {
		return false
	}
	if free == 0 {
		return true
	}
	n.free = make([]uint32, free)
	n.dead = make([]uint64, (n.next+63)/64)
	for i := top; ; {
		if i >= n.next || n.isDead(i) || free == 0 {
			return false
		}
		p := f.all[i/PageLen]
		if p.live[i%PageLen/64]>>(i%64)&1 != 0 || p.under == nil {
			return false
		}
		free--
		n.free[free] = i
		n.dead[i>>6] |= 1 << (i & 63)
		if i = p.under[i%PageLen]; i == none {
			return free == 0
		}
	}
}

// enter builds the index of t, whose entries and numbers are set. It looks up a group of
// entries at a time, so that their cache misses overlap.
func enter[K comparable, V any](t *Table[K, V], h *Hasher[K]) bool {
	const group = 16
	var hs [group]uint64
	var is [group]uint32
	n := 0
	flush := func() bool {
		t.index.touch(hs[:n])
		for j, i := range is[:n] {
			k := t.entry(i).k
			if _, v := t.GetIndex(k, hs[j]); v != nil {
				return false
			}
			for _, lost := range t.index.insert(hs[j]>>32<<32 | uint64(i+1)) {
				spillKey(t, uint32(lost)-1)
			}
		}
		n = 0
		return true
	}
	for i := range t.nums.next {
		if t.nums.isDead(i) {
			continue
		}
		is[n], hs[n] = i, h.Hash(t.entry(i).k)
		if n++; n == group && !flush() {
			return false
		}
	}
	return flush()
}
