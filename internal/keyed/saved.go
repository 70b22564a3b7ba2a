package keyed

// A table that is saved can be written down while it changes, entry by entry. What is
// written of it is next, the top of the free numbers, and each entry that has changed. A
// free number's entry says which number is free under it: so the order in which numbers are
// taken again, which is the order of entries to come, is written with the entries.

// saved is what a table has that is saved.
//
// It maintains: under[i] is what was free last when the dead entry i became free, or none.
type saved[K comparable, V any] struct {
	marks  *Marks
	values bool // a Put of a key that is there may change its value
	under  []uint32

	// A table that was emptied during a cut is still to be taken as it was.
	was      *Table[K, V]
	wasUnder []uint32
}

// none is no number: there are fewer entries.
const none = ^uint32(0)

// Save has the table note what changes. All of it counts as changed. Early is given the
// number of an entry of a cut that changes before it was taken. If keys is true, only that
// keys come and go is a change.
func (t *Table[K, V]) Save(keys bool, early func(i uint32)) *Marks {
	if t.saved != nil {
		t.saved.marks = NewMarks(t.next, early)
		t.saved.was, t.saved.wasUnder = nil, nil
		return t.saved.marks
	}
	s := &saved[K, V]{marks: NewMarks(t.next, early), values: !keys}
	below := none
	for _, i := range t.free {
		s.link(i, below)
		below = i
	}
	t.saved = s
	return s.marks
}

// Freeze begins a cut of a table that is saved; see [Marks.Freeze].
func (t *Table[K, V]) Freeze() { t.saved.marks.Freeze() }

// Thaw ends a cut, all of which was written.
func (t *Table[K, V]) Thaw() { t.saved.was, t.saved.wasUnder = nil, nil }

// Change is called before the value of entry i is written.
func (t *Table[K, V]) Change(i uint32) {
	if t.saved != nil {
		t.saved.put(i)
	}
}

// Next returns how many numbers were given out, and the free one that is taken first.
func (t *Table[K, V]) Next() (next uint32, free uint32, ok bool) {
	return t.next, t.top(), len(t.free) > 0
}

// Image returns entry i as it was at the cut under way: its key and value if it lived, else
// the number that was free under it, if there was one.
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

// Under reports whether a number that was returned as free under another one is one.
func Under(i uint32) bool { return i != none }

func (t *Table[K, V]) top() uint32 {
	if n := len(t.free); n > 0 {
		return t.free[n-1]
	}
	return none
}

// found returns entry i to who puts its key, which may write it.
//
//go:noinline
func (t *Table[K, V]) found(i uint32) (uint32, *V, bool) {
	if t.saved != nil {
		t.saved.put(i)
	}
	return i, &t.entry(i).v, false
}

// put is called when entry i, which lives, may be written.
func (s *saved[K, V]) put(i uint32) {
	if s.values {
		s.marks.Change(i)
	}
}

// free is called before entry i dies and becomes free above another one.
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

// restart is called before all numbers of t are given out anew. If a cut is under way, the
// entries stay as they are for it. If t was large, what s has for each number goes.
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
