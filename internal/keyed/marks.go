package keyed

import (
	"math/bits"
	"slices"
)

// PageLen is the number of entries of a page, whose numbers are consecutive.
const PageLen = chunkLen

// Marks record which of some numbered things have changed since the last cut, and which things of
// a cut still have to be taken. A cut is the state of all things at one moment. [Marks.Freeze]
// begins it at the cost of a few words, and the caller then takes its things, a few at a time. A
// thing that is about to change before it was taken is first passed to beforeChange, in its old state.
//
// They maintain:
//
//  1. a page is in list if and only if dirty has a bit of it,
//  2. a page with a bit in frozen is in queue.
type Marks struct {
	beforeChange func(i uint32)
	dirty        []page   // changed since the last cut
	list         []uint32 // pages with a bit in dirty
	frozen       []page   // in the cut, not taken yet
	queue        []uint32 // pages with a bit in frozen, the next one last

	notes bool     // Note was called
	noted []uint32 // what has changed since then, possibly with repeats
}

// A page has a bit for each of its entries.
type page [PageLen / 64]uint64

// NewMarks returns marks of n things that have all changed. BeforeChange receives each thing of a cut
// that changes before it was taken.
func NewMarks(n uint32, beforeChange func(i uint32)) *Marks {
	m := &Marks{beforeChange: beforeChange}
	m.ChangeAll(n)
	return m
}

// Change must be called before thing i changes, or is created.
func (m *Marks) Change(i uint32) {
	m.Keep(i)
	if m.notes {
		m.noted = append(m.noted, i)
	}
	p := int(i / PageLen)
	if p >= len(m.dirty) {
		m.dirty = append(m.dirty, make([]page, p+1-len(m.dirty))...)
	}
	d := &m.dirty[p]
	if *d == (page{}) {
		m.list = append(m.list, uint32(p))
	}
	d[i%PageLen/64] |= 1 << (i % 64)
}

// Keep must be called before thing i is removed for good. Nothing needs to be written of it
// except its state at the cut.
func (m *Marks) Keep(i uint32) {
	if len(m.queue) == 0 {
		return
	}
	if p := int(i / PageLen); p < len(m.frozen) {
		if w, bit := &m.frozen[p][i%PageLen/64], uint64(1)<<(i%64); *w&bit != 0 {
			*w &^= bit
			m.beforeChange(i)
		}
	}
}

// ChangeAll marks all of n things as changed. There must be no cut in progress.
func (m *Marks) ChangeAll(n uint32) {
	m.list, m.queue = m.list[:0], m.queue[:0]
	m.dirty, m.frozen = make([]page, pages(n)), nil
	for p := range m.dirty {
		m.dirty[p] = below(uint32(p), n)
		m.list = append(m.list, uint32(p))
	}
	for i := uint32(0); m.notes && i < n; i++ {
		m.noted = append(m.noted, i)
	}
}

// Note starts a list of what changes, until [Marks.Noted] is called.
func (m *Marks) Note() { m.notes, m.noted = true, m.noted[:0] }

// Noted returns the numbers of what has changed since [Marks.Note] was called, in order, and ends
// the list. Some of the things may no longer exist. The slice is valid until the next call of
// Note.
func (m *Marks) Noted() []uint32 {
	slices.Sort(m.noted)
	m.notes, m.noted = false, slices.Compact(m.noted)
	return m.noted
}

// Unchanged marks all things as unchanged since the last cut. It does not affect a cut in progress.
func (m *Marks) Unchanged() {
	for _, p := range m.list {
		m.dirty[p] = page{}
	}
	m.list = m.list[:0]
}

// release frees all memory. It must only be called when nothing is marked as changed and no cut is
// in progress.
func (m *Marks) release() { *m = Marks{beforeChange: m.beforeChange, notes: m.notes, noted: m.noted} }

// Freeze begins a cut of what has changed. The previous cut must have been taken.
func (m *Marks) Freeze() {
	m.dirty, m.frozen = m.frozen, m.dirty
	m.list, m.queue = m.queue[:0], m.list
}

// FreezePage adds a page of things to the cut that has begun. There are n things in all.
func (m *Marks) FreezePage(p, n uint32) {
	if int(p) >= len(m.frozen) {
		m.frozen = append(m.frozen, make([]page, int(p)+1-len(m.frozen))...)
	}
	if f := &m.frozen[p]; *f == (page{}) {
		m.queue = append(m.queue, p)
	}
	m.frozen[p] = below(p, n)
}

// Frozen calls do for each page of the cut that has begun, with the number of things that it
// contains.
func (m *Marks) Frozen(do func(p uint32, n int)) {
	for _, p := range m.queue {
		n := 0
		for _, w := range m.frozen[p] {
			n += bits.OnesCount64(w)
		}
		do(p, n)
	}
}

// Take takes things of the cut, at most most and at most 64. Set has a bit for each of them; the
// lowest bit stands for number first. Set is 0 when all were taken.
func (m *Marks) Take(most int) (first uint32, set uint64) {
	for len(m.queue) > 0 {
		p := m.queue[len(m.queue)-1]
		for w := range m.frozen[p] {
			if set = m.frozen[p][w]; set != 0 {
				for bits.OnesCount64(set) > most {
					set &^= 1 << (63 - bits.LeadingZeros64(set))
				}
				m.frozen[p][w] &^= set
				return p*PageLen + uint32(w)*64, set
			}
		}
		m.queue = m.queue[:len(m.queue)-1]
	}
	return 0, 0
}

// Each calls do with the numbers that [Marks.Take] returned.
func Each(first uint32, set uint64, do func(i uint32)) {
	for ; set != 0; set &= set - 1 {
		do(first + uint32(bits.TrailingZeros64(set)))
	}
}

// Taken reports whether nothing of the cut is left.
func (m *Marks) Taken() bool {
	for n := len(m.queue); n > 0 && m.frozen[m.queue[n-1]] == (page{}); n-- {
		m.queue = m.queue[:n-1]
	}
	return len(m.queue) == 0
}

// Bytes returns the memory held.
func (m *Marks) Bytes() uint64 {
	return PageLen/8*uint64(cap(m.dirty)+cap(m.frozen)) + 4*uint64(cap(m.list)+cap(m.queue)+cap(m.noted))
}

// pages returns the number of pages of n things.
func pages(n uint32) int { return (int(n) + PageLen - 1) / PageLen }

// below returns the things of page p with numbers below n.
func below(p, n uint32) (all page) {
	for w := range all {
		switch first := uint64(p)*PageLen + uint64(w)*64; {
		case first+64 <= uint64(n):
			all[w] = ^uint64(0)
		case first < uint64(n):
			all[w] = 1<<(uint64(n)-first) - 1
		}
	}
	return all
}
