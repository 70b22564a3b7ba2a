package keyed

import "math/bits"

// A Loader is a table that is being restored from its saved entries, in any order.
type Loader[K comparable, V any] struct {
	pages map[uint32]*loadedPage[K, V]
	at    uint32 // the last page that was used
	last  *loadedPage[K, V]
}

// A loadedPage is a page of a table that is being restored.
type loadedPage[K comparable, V any] struct {
	entries *[chunkLen]entry[K, V] // nil while none lives
	live    page
	under   *[PageLen]uint32 // for free entries; nil if none is free
}

func (f *Loader[K, V]) page(p uint32) *loadedPage[K, V] {
	if f.last != nil && f.at == p {
		return f.last
	}
	if f.pages == nil {
		f.pages = make(map[uint32]*loadedPage[K, V])
	}
	if f.pages[p] == nil {
		f.pages[p] = new(loadedPage[K, V])
	}
	f.at, f.last = p, f.pages[p]
	return f.last
}

// Live returns pointers to the key and the value of entry i, which lives.
func (f *Loader[K, V]) Live(i uint32) (*K, *V) {
	p := f.page(i / PageLen)
	p.live[i%PageLen/64] |= 1 << (i % 64)
	if p.entries == nil {
		p.entries = new([chunkLen]entry[K, V])
	}
	e := &p.entries[i%PageLen]
	return &e.k, &e.v
}

// Free records that number i is free, and that under is the free number below it; see
// [Table.Image].
func (f *Loader[K, V]) Free(i, under uint32) {
	p := f.page(i / PageLen)
	if p.under == nil {
		p.under = new([PageLen]uint32)
	}
	p.under[i%PageLen] = under
}

// FreeBottom is [Loader.Free] for a number with no free number below it.
func (f *Loader[K, V]) FreeBottom(i uint32) { f.Free(i, none) }

// Into sets t, which must not be saved, to the restored table. Next is the count of assigned
// numbers, and top the free number to reuse first, if some is true. Into reports whether the
// data is complete: each number is either a live entry or free, exactly once, and no key
// occurs twice. If it is not, t is unchanged.
func (f *Loader[K, V]) Into(t *Table[K, V], next, top uint32, some bool, h *Hasher[K]) bool {
	n := pages(next)
	if n > len(f.pages) {
		return false
	}
	to := &Table[K, V]{chunks: make([]*[chunkLen]entry[K, V], n), next: next}
	to.index.init()
	for p := range to.chunks {
		from := f.pages[uint32(p)]
		if from == nil {
			return false
		}
		for w, there := range below(uint32(p), next) {
			for gone := from.live[w] &^ there; gone != 0; gone &= gone - 1 { // from before the numbers were assigned anew
				from.entries[w*64+bits.TrailingZeros64(gone)] = entry[K, V]{}
			}
			from.live[w] &= there
			to.live += uint32(bits.OnesCount64(from.live[w]))
		}
		// A page without live entries has no chunk, unless some of its numbers are still to
		// be assigned.
		if to.chunks[p] = from.entries; from.live == (page{}) {
			to.chunks[p] = nil
		}
		if to.chunks[p] != nil {
			to.used++
		} else if p == n-1 && next%chunkLen != 0 {
			to.chunks[p] = to.chunk()
		}
	}
	if !f.free(to, top, some) || !to.enter(f, h) {
		return false
	}
	*t = *to
	return true
}

// free builds the list of free numbers of t.
func (f *Loader[K, V]) free(t *Table[K, V], top uint32, some bool) bool {
	free := int(t.next - t.live)
	if some != (free > 0) {
		return false
	}
	if free == 0 {
		return true
	}
	t.free = make([]uint32, free)
	t.dead = make([]uint64, (t.next+63)/64)
	for i := top; ; {
		if i >= t.next || t.isDead(i) || free == 0 {
			return false
		}
		p := f.pages[i/PageLen]
		if p.live[i%PageLen/64]>>(i%64)&1 != 0 || p.under == nil {
			return false
		}
		free--
		t.free[free] = i
		t.dead[i>>6] |= 1 << (i & 63)
		if i = p.under[i%PageLen]; i == none {
			return free == 0
		}
	}
}

// enter builds the index of t, whose entries and numbers are set. It looks up a group of
// entries at a time, so that their cache misses overlap.
func (t *Table[K, V]) enter(f *Loader[K, V], h *Hasher[K]) bool {
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
				t.spillKey(uint32(lost) - 1)
			}
		}
		n = 0
		return true
	}
	for i := range t.next {
		if t.isDead(i) {
			continue
		}
		is[n], hs[n] = i, h.Hash(t.entry(i).k)
		if n++; n == group && !flush() {
			return false
		}
	}
	return flush()
}
