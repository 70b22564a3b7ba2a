package keyed

import "unsafe"

// A saved table can be written entry by entry while it changes. What is written is next,
// the top of the free numbers, and each entry that has changed. The entry of a free number
// says which number is free below it. So the order in which numbers are reused, which is
// the order of future entries, is written with the entries.

// saved is the additional state of a table that is saved.
//
// It maintains: under[i] is the top of the free numbers at the time when the dead entry i
// became free, or none.
type saved struct {
	marks  *Marks
	values bool // a Put of an existing key may change its value
	under  []uint32

	// What under was in the state of the cut, if the table was emptied since; see Numbers.was.
	wasUnder []uint32
}

// none is not a number of an entry: there are fewer entries.
const none = ^uint32(0)

// Save makes the table record what changes; all of it counts as changed. BeforeChange receives the
// number of each entry of a cut that changes before it was taken. If keys is true, only
// adding and removing keys counts as a change.
func (n *Numbers) Save(keys bool, beforeChange func(i uint32)) *Marks {
	if n.saved != nil {
		n.Thaw()
		n.saved.marks = NewMarks(n.next, beforeChange)
		return n.saved.marks
	}
	s := &saved{marks: NewMarks(n.next, beforeChange), values: !keys}
	below := none
	for _, i := range n.free {
		s.link(i, below)
		below = i
	}
	n.saved = s
	return s.marks
}

// Freeze begins a cut of a saved table; see [Marks.Freeze].
func (n *Numbers) Freeze() { n.saved.marks.Freeze() }

// Thaw ends a cut that was written completely.
func (n *Numbers) Thaw() { n.was, n.saved.wasUnder = nil, nil }

// Next returns the count of assigned numbers, and the free one that is reused first, if
// there is one.
func (n *Numbers) Next() (next uint32, free uint32, ok bool) {
	return n.next, n.top(), len(n.free) > 0
}

// ImageOf returns entry i of t in the state of the current cut: its key and value if it lived,
// otherwise the number that was free below it, if there was one.
func ImageOf[K comparable, V any](t *Table[K, V], i uint32) (k K, v *V, under uint32, live bool) {
	links := t.nums.saved.under
	if was := t.nums.was; was != nil {
		t, links = (*Table[K, V])(was), t.nums.saved.wasUnder
	}
	if k, v, live = t.At(i); live {
		return k, v, none, true
	}
	if int(i) < len(links) {
		return k, nil, links[i], false
	}
	return k, nil, none, false
}

// Under reports whether i, which was returned as the free number below another one, is a
// number.
func Under(i uint32) bool { return i != none }

// found returns entry i to a caller that puts its key and may write the value.
//
//go:noinline
func (t *Table[K, V]) found(i uint32) (uint32, *V, bool) {
	if t.nums.saved != nil {
		t.nums.saved.put(i)
	}
	return i, &t.entry(i).v, false
}

// put is called when the live entry i may be written.
func (s *saved) put(i uint32) {
	if s.values {
		s.marks.Change(i)
	}
}

// free is called before entry i dies and becomes free above another number.
func (s *saved) free(i, above uint32) {
	s.marks.Change(i)
	s.link(i, above)
}

func (s *saved) link(i, below uint32) {
	if int(i) >= len(s.under) {
		s.under = append(s.under, make([]uint32, int(i)+1-len(s.under))...)
	}
	s.under[i] = below
}

// leave is called before all numbers of t are assigned anew. If a cut is in progress, t keeps the
// entries for the cut. If t was large, it frees what is held for each number.
func leave[K comparable, V any](t *Table[K, V], large bool) {
	if t.nums.saved.leave(t.nums.was != nil, large) {
		t.nums.was = unsafe.Pointer(&Table[K, V]{chunks: t.chunks, nums: Numbers{next: t.nums.next, dead: t.nums.dead}, used: t.used})
		t.chunks, t.nums.next, t.nums.dead, t.used = nil, 0, nil, 0
	}
}

// leave does that for the links. It reports whether the table must keep its entries; kept says that it has
// those of the cut already.
func (s *saved) leave(kept, large bool) bool {
	s.marks.Unchanged()
	switch taken := s.marks.Taken(); {
	case taken && large:
		s.marks.release()
		s.under = nil
	case taken:
	case !kept:
		s.wasUnder, s.under = s.under, nil
		return true
	case large:
		s.under = nil
	}
	return false
}

func (s *saved) bytes() uint64 {
	if s == nil {
		return 0
	}
	return s.marks.Bytes() + 4*uint64(cap(s.under)+cap(s.wasUnder))
}
