package keyed

// A saved table can be written entry by entry while it changes. What is written is next,
// the top of the free numbers, and each entry that has changed. The entry of a free number
// says which number is free below it. So the order in which numbers are reused, which is
// the order of future entries, is written with the entries.

// saved is the additional state of a table that is saved.
//
// It maintains: under[i] is the top of the free numbers at the time when the dead entry i
// became free, or none.
type saved[K comparable, V any] struct {
	marks  *Marks
	values bool // a Put of an existing key may change its value
	under  []uint32

	// The entries and links of a table that was emptied during a cut, in the state of the
	// cut.
	was      *Table[K, V]
	wasUnder []uint32
}

// none is not a number of an entry: there are fewer entries.
const none = ^uint32(0)

// Save makes the table record what changes; all of it counts as changed. BeforeChange receives the
// number of each entry of a cut that changes before it was taken. If keys is true, only
// adding and removing keys counts as a change.
func (t *Table[K, V]) Save(keys bool, beforeChange func(i uint32)) *Marks {
	if t.saved != nil {
		t.saved.marks = NewMarks(t.next, beforeChange)
		t.saved.was, t.saved.wasUnder = nil, nil
		return t.saved.marks
	}
	s := &saved[K, V]{marks: NewMarks(t.next, beforeChange), values: !keys}
	below := none
	for _, i := range t.free {
		s.link(i, below)
		below = i
	}
	t.saved = s
	return s.marks
}

// Freeze begins a cut of a saved table; see [Marks.Freeze].
func (t *Table[K, V]) Freeze() { t.saved.marks.Freeze() }

// Thaw ends a cut that was written completely.
func (t *Table[K, V]) Thaw() { t.saved.was, t.saved.wasUnder = nil, nil }

// Change must be called before the value of entry i is written.
func (t *Table[K, V]) Change(i uint32) {
	if t.saved != nil {
		t.saved.put(i)
	}
}

// Next returns the count of assigned numbers, and the free one that is reused first, if
// there is one.
func (t *Table[K, V]) Next() (next uint32, free uint32, ok bool) {
	return t.next, t.top(), len(t.free) > 0
}

// Image returns entry i in the state of the current cut: its key and value if it lived,
// otherwise the number that was free below it, if there was one.
func (t *Table[K, V]) Image(i uint32) (k K, v *V, under uint32, live bool) {
	links := t.saved.under
	if t.saved.was != nil {
		t, links = t.saved.was, t.saved.wasUnder
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

func (t *Table[K, V]) top() uint32 {
	if n := len(t.free); n > 0 {
		return t.free[n-1]
	}
	return none
}

// found returns entry i to a caller that puts its key and may write the value.
//
//go:noinline
func (t *Table[K, V]) found(i uint32) (uint32, *V, bool) {
	if t.saved != nil {
		t.saved.put(i)
	}
	return i, &t.entry(i).v, false
}

// put is called when the live entry i may be written.
func (s *saved[K, V]) put(i uint32) {
	if s.values {
		s.marks.Change(i)
	}
}

// free is called before entry i dies and becomes free above another number.
func (s *saved[K, V]) free(i, above uint32) {
	s.marks.Change(i)
	s.link(i, above)
}

func (s *saved[K, V]) link(i, below uint32) {
	if int(i) >= len(s.under) {
		s.under = append(s.under, make([]uint32, int(i)+1-len(s.under))...)
	}
	s.under[i] = below
}

// restart is called before all numbers of t are assigned anew. If a cut is in progress, it
// keeps the entries for the cut. If t was large, it frees what s holds for each number.
func (s *saved[K, V]) restart(t *Table[K, V], large bool) {
	s.marks.Unchanged()
	switch taken := s.marks.Taken(); {
	case taken && large:
		s.marks.release()
		s.under = nil
	case taken:
	case s.was == nil:
		was := &Table[K, V]{chunks: t.chunks, next: t.next, dead: t.dead, used: t.used}
		s.was, s.wasUnder = was, s.under
		t.chunks, t.next, t.dead, t.used, s.under = nil, 0, nil, 0, nil
	case large:
		s.under = nil
	}
}

func (s *saved[K, V]) bytes() (n uint64) {
	if s == nil {
		return 0
	}
	if s.was != nil {
		n = s.was.Bytes()
	}
	return n + s.marks.Bytes() + 4*uint64(cap(s.under)+cap(s.wasUnder))
}
