package keyed

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// A written is what was written for one number of a table.
type written struct {
	k     int
	v     int
	under uint32
	live  bool
}

// A writer saves a table at cuts, a few entries at a time, and keeps what it last wrote for each number.
type writer struct {
	t     *Table[int, int]
	marks *Marks
	kept  map[uint32]written // of earlier cuts, and what is written of this one
	now   map[uint32]written // of this cut
	next  uint32
	top   uint32
	some  bool
	open  bool
	keys  bool
	most  int // entries taken at once

	want  *Table[int, int] // as it was at the cut
	early int
}

func newWriter(t *Table[int, int], keys bool) *writer {
	w := &writer{t: t, kept: make(map[uint32]written), keys: keys, most: 64}
	w.marks = t.Numbers().Save(keys, func(i uint32) {
		w.early++
		w.write(i)
	})
	return w
}

func (w *writer) write(i uint32) {
	k, v, under, live := ImageOf(w.t, i)
	x := written{k: k, under: under, live: live}
	if live && !w.keys {
		x.v = *v
	}
	if _, twice := w.now[i]; twice {
		panic(fmt.Sprintf("entry %d is written twice", i))
	}
	w.now[i] = x
}

func (w *writer) cut() {
	w.t.Numbers().Freeze()
	w.now = make(map[uint32]written)
	w.next, w.top, w.some = w.t.Numbers().Next()
	w.open = true
	w.want = copyOf(w.t)
}

// part writes a part of the cut, and reports whether all of it is written.
func (w *writer) part() bool {
	first, set := w.marks.Take(w.most)
	Each(first, set, w.write)
	if !w.marks.Taken() {
		return false
	}
	for i, x := range w.now {
		w.kept[i] = x
	}
	w.open = false
	w.t.Numbers().Thaw()
	return true
}

// restored returns the table that was written.
func (w *writer) restored() (*Table[int, int], bool) {
	var f Loader
	for i, x := range w.kept {
		switch {
		case x.live:
			k, v := Live[int, int](&f, i)
			*k, *v = x.k, x.v
		case Under(x.under):
			f.Free(i, x.under)
		default:
			f.FreeBottom(i)
		}
	}
	t := NewTable[int, int]()
	return t, Restore(t, &f, w.next, w.top, w.some, HasherOf[int]())
}

// copyOf returns a table with the entries and the numbering of t.
func copyOf(t *Table[int, int]) *Table[int, int] {
	c := &Table[int, int]{nums: Numbers{next: t.nums.next, live: t.nums.live, free: slices.Clone(t.nums.free), dead: slices.Clone(t.nums.dead)}, used: t.used}
	c.index.init()
	h := HasherOf[int]()
	for _, e := range t.chunks {
		if e != nil {
			chunk := *e
			e = &chunk
		}
		c.chunks = append(c.chunks, e)
	}
	for i := range t.nums.next {
		if k, _, ok := t.At(i); ok {
			c.index.insert(h.Hash(k)>>32<<32 | uint64(i+1))
		}
	}
	return c
}

// sameTable compares the contents of two tables, with numbers and their order.
func sameTable(a, b *Table[int, int]) error {
	if a.nums.next != b.nums.next || a.nums.live != b.nums.live || !slices.Equal(a.nums.free, b.nums.free) {
		return fmt.Errorf("%d numbers, %d live, %v free; want %d, %d, %v", a.nums.next, a.nums.live, a.nums.free, b.nums.next, b.nums.live, b.nums.free)
	}
	for i := range a.nums.next {
		k, v, ok := a.At(i)
		wk, wv, wok := b.At(i)
		if k != wk || ok != wok || ok && *v != *wv {
			return fmt.Errorf("entry %d is %d, %v, want %d, %v", i, k, ok, wk, wok)
		}
	}
	return nil
}

// act makes a random call that may change t.
func act(r *rand.Rand, t *Table[int, int], h *Hasher[int], keys int, values bool) {
	k := r.IntN(keys)
	switch op := r.IntN(100); {
	case op == 0 && r.IntN(20) == 0:
		t.Clear()
	case op < 40:
		t.Delete(k, h.Hash(k))
	case op < 60 && values:
		if i, v := t.GetIndex(k, h.Hash(k)); v != nil {
			t.Change(i)
			*v++
		}
	case op < 70:
		t.PutNew([]int{k, k + 1}, []uint64{h.Hash(k), h.Hash(k + 1)}, nil)
	case op < 85:
		v, _, _ := t.PutOne(h, k, 0)
		if values {
			*v += 3
		}
	default:
		v, _ := t.Put(k, h.Hash(k))
		if values {
			*v += 7
		}
	}
}

// TestCuts saves a table at cuts while it changes. What was saved must be the table as it was at the
// cut, whatever happened since, with its numbering, so the calls that follow give the same results.
func TestCuts(t *testing.T) {
	h := HasherOf[int]()
	early, restarts := 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(uint64(*seedFlag), seed))
		keys := []int{3, 40, 700, 5000}[seed%4]
		onlyKeys := seed%3 == 0
		table := NewTable[int, int]()
		for range r.IntN(3 * keys) {
			act(r, table, h, keys, !onlyKeys)
		}
		w := newWriter(table, onlyKeys)
		for cut := range 12 {
			w.cut()
			w.most = 1 + r.IntN(64)
			if r.IntN(3) == 0 { // as a cleaner does
				for p := range uint32(pages(w.next)) {
					if r.IntN(2) == 0 {
						w.marks.FreezePage(p, w.next)
					}
				}
			}
			for !w.part() {
				for range r.IntN(60) {
					act(r, table, h, keys, !onlyKeys)
				}
				if table.nums.was != nil {
					restarts++
				}
			}
			got, ok := w.restored()
			if !ok {
				t.Fatalf("seed %d, cut %d: what was written is no table\n%s", seed, cut, rerun(t))
			}
			if err := sameTable(got, w.want); err != nil {
				t.Fatalf("seed %d, cut %d: %v\n%s", seed, cut, err, rerun(t))
			}
			if onlyKeys {
				continue
			}
			a, b := rand.New(rand.NewPCG(seed, 9)), rand.New(rand.NewPCG(seed, 9))
			for range 100 {
				act(a, got, h, keys, true)
				act(b, w.want, h, keys, true)
			}
			if err := sameTable(got, w.want); err != nil {
				t.Fatalf("seed %d, cut %d, 100 calls later: %v\n%s", seed, cut, err, rerun(t))
			}
			for k := range keys {
				i, v := got.GetIndex(k, h.Hash(k))
				wi, wv := w.want.GetIndex(k, h.Hash(k))
				if i != wi || (v == nil) != (wv == nil) {
					t.Fatalf("seed %d, cut %d: key %d has number %d, want %d\n%s", seed, cut, k, i, wi, rerun(t))
				}
			}
			for range r.IntN(4 * keys) {
				act(r, table, h, keys, true)
			}
		}
		early += w.early
	}
	if early < 1000 || restarts < 10 {
		t.Errorf("%d entries changed during a cut and %d tables were emptied: the test sees too little", early, restarts)
	}
}

// TestCutTakesWhatChanged checks that a cut contains only what changed.
func TestCutTakesWhatChanged(t *testing.T) {
	h := HasherOf[int]()
	table := NewTable[int, int]()
	for k := range 10_000 {
		table.Put(k, h.Hash(k))
	}
	w := newWriter(table, false)
	for w.cut(); !w.part(); {
	}
	for range 3 {
		table.Put(77, h.Hash(77))
		table.Get(4000, h.Hash(4000))
		table.Delete(9000, h.Hash(9000))
		table.Put(9000, h.Hash(9000))
		for w.cut(); !w.part(); {
		}
		if len(w.now) != 2 {
			t.Errorf("a cut has %d entries, and 2 changed", len(w.now))
		}
	}
	sets := newWriter(copyOf(table), true)
	table = sets.t
	for sets.cut(); !sets.part(); {
	}
	table.Put(77, h.Hash(77))
	for sets.cut(); !sets.part(); {
	}
	if len(sets.now) != 0 {
		t.Errorf("a cut of a set has %d entries, and no key came or went", len(sets.now))
	}
}

// TestFilling checks that invalid tables are refused.
func TestFilling(t *testing.T) {
	h := HasherOf[int]()
	for _, c := range []struct {
		what string
		fill func(f *Loader) (next, top uint32, some bool)
	}{
		{"a number is missing", func(f *Loader) (uint32, uint32, bool) { *first(Live[int, int](f, 0)) = 1; return 2, 0, false }},
		{"a page is missing", func(f *Loader) (uint32, uint32, bool) { *first(Live[int, int](f, 0)) = 1; return 300, 0, false }},
		{"a key comes twice", func(f *Loader) (uint32, uint32, bool) {
			*first(Live[int, int](f, 0)), *first(Live[int, int](f, 1)) = 1, 1
			return 2, 0, false
		}},
		{"a free number lives", func(f *Loader) (uint32, uint32, bool) {
			*first(Live[int, int](f, 0)) = 1
			f.FreeBottom(1)
			return 2, 0, true
		}},
		{"free numbers go round", func(f *Loader) (uint32, uint32, bool) {
			*first(Live[int, int](f, 0)) = 1
			f.Free(1, 2)
			f.Free(2, 1)
			return 3, 1, true
		}},
		{"a free number is beyond the end", func(f *Loader) (uint32, uint32, bool) {
			*first(Live[int, int](f, 0)) = 1
			f.Free(1, 9)
			return 2, 1, true
		}},
		{"no number is free", func(f *Loader) (uint32, uint32, bool) { *first(Live[int, int](f, 0)) = 1; return 1, 0, true }},
	} {
		var f Loader
		next, top, some := c.fill(&f)
		into := NewTable[int, int]()
		if Restore(into, &f, next, top, some, h) || into.Len() != 0 {
			t.Errorf("%s: accepted", c.what)
		}
	}
}

func first[A, B any](a A, _ B) A { return a }

// TestSaveAgain abandons a cut of a table that was emptied meanwhile, and saves the table from the
// start with a new writer. It fails if entries are written that the table no longer contains, or if
// the second writer misses entries.
func TestSaveAgain(t *testing.T) {
	h := HasherOf[int]()
	table := NewTable[int, int]()
	fill := func(from, to int) {
		for k := from; k < to; k++ {
			v, _ := table.Put(k, h.Hash(k))
			*v = 3 * k
		}
	}
	fill(0, 500)
	first := newWriter(table, false)
	first.cut()
	first.most = 10
	if first.part() {
		t.Fatal("all of the cut is written at once")
	}
	table.Clear()
	fill(300, 700)
	seen := len(first.now)
	second := newWriter(table, false)
	second.cut()
	fill(690, 710) // during the second cut, so some are written early
	for !second.part() {
	}
	got, ok := second.restored()
	if !ok {
		t.Fatal("what was written is no table")
	}
	if err := sameTable(got, second.want); err != nil {
		t.Error(err)
	}
	if len(first.now) != seen || second.early == 0 {
		t.Errorf("the first writer was given %d more entries, the second one %d early", len(first.now)-seen, second.early)
	}
}

// TestNoted lists the numbers that have changed since Note, each once and in order. It fails if
// changes are listed again the next time, or if the list never ends.
func TestNoted(t *testing.T) {
	m := NewMarks(4, func(uint32) {})
	m.Change(2)
	m.Note()
	for _, i := range []uint32{3, 1, 300, 1, 3} {
		m.Change(i)
	}
	if got := m.Noted(); !slices.Equal(got, []uint32{1, 3, 300}) {
		t.Errorf("%v have changed", got)
	}
	m.Change(0)
	if len(m.noted) != 3 {
		t.Errorf("%v: a change is noted that nobody asked for", m.noted)
	}
	m.Note()
	m.Change(2)
	if got := m.Noted(); !slices.Equal(got, []uint32{2}) {
		t.Errorf("%v have changed since it was asked again", got)
	}
}
