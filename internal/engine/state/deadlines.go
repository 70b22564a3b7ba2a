package state

import (
	"encoding/binary"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
	"github.com/millrace/millrace/internal/timer"
)

// Deadlines are timers of the entries of a table, one for each entry or for some of them. Before an entry is deleted, its timer
// has to be canceled.
//
// They maintain, if they are saved: an entry has an order if and only if its timer is pending.
type Deadlines struct {
	index
	make  func() index
	key   func(entry uint32) any
	marks *keyed.Marks // nil if they are not saved
	orders
}

// NewDeadlines returns timers in m of one duration, one for each entry of a table that is in m.
func NewDeadlines[K comparable, V any](m engine.Memory, table *keyed.Table[K, V]) *Deadlines {
	return newDeadlines(m, table, true, func() index { return timer.NewFIFO() })
}

// NewVaryingDeadlines returns timers in m of any duration, for entries of a table in m. every says that each entry has one.
func NewVaryingDeadlines[K comparable, V any](m engine.Memory, table *keyed.Table[K, V], every bool) *Deadlines {
	return newDeadlines(m, table, every, func() index { return timer.NewWheel() })
}

func newDeadlines[K comparable, V any](m engine.Memory, table *keyed.Table[K, V], every bool, make func() index) *Deadlines {
	t := &Deadlines{index: make(), make: make}
	m.Add(t.clear, func(*engine.Op) engine.State { return &deadlinesState[K, V]{t: t, table: table, every: every} })
	return t
}

// Keys sets the function that returns the key of an operator to which the timer of an entry belongs, so that a simulation can
// fire the timers of some keys only. It is called before a timer is set.
func (t *Deadlines) Keys(op *engine.Op, key func(entry uint32) any) {
	t.key = key
	if op.Loc.Simulated() {
		t.make = selective(op, key)
		t.index = t.make()
	}
}

// EachKey calls do with the key and the deadline of each timer, in the order in which they will fire.
func (t *Deadlines) EachKey(do func(key any, at int64)) {
	t.Each(func(entry uint32, at int64) { do(t.key(entry), at) })
}

// selective returns a constructor of an index that fires only the timers of keys that the location has picked.
func selective(op *engine.Op, key func(i uint32) any) func() index {
	return func() index {
		return timer.NewSelective(func(i uint32) bool { return op.Loc.Picks == nil || op.Loc.Picks(op.Part(key(i))) })
	}
}

func (t *Deadlines) clear() { t.index, t.orders = t.make(), orders{} }

// Add sets the timer of an entry.
func (t *Deadlines) Add(entry uint32, at int64) {
	if t.marks != nil {
		t.marks.Change(entry)
		t.reach(entry, t.marks.Change)
		t.set(entry, at)
	}
	t.index.Add(entry, at)
}

// Cancel cancels the timer of an entry. It returns false if the entry has none.
func (t *Deadlines) Cancel(entry uint32) bool {
	ok := t.index.Cancel(entry)
	if ok {
		t.over(entry)
	}
	return ok
}

// Expire calls fire with the entries whose timers are due at now, in order. fire may set and cancel timers, and delete entries.
func (t *Deadlines) Expire(now int64, fire func(entry uint32)) {
	if t.marks == nil {
		t.index.Expire(now, fire)
		return
	}
	t.index.Expire(now, func(entry uint32) {
		t.over(entry)
		fire(entry)
	})
}

// over records that the timer of an entry is gone.
func (t *Deadlines) over(entry uint32) {
	if t.marks == nil {
		return
	}
	t.marks.Change(entry)
	t.unset(entry)
}

// orders records when the timer of each entry fires, and the sequence number with which it was set: timers of one deadline fire
// in the order in which they were set. It is kept in pages; a page is dropped with its last timer.
type orders struct {
	last  uint64 // how often a timer was set
	n     uint32 // one more than the largest entry that has had a timer since there was none
	some  int    // number of pages
	pages []*orderPage
}

type orderPage struct {
	live int
	at   [keyed.PageLen]int64
	set  [keyed.PageLen]uint64 // 0 if there is no timer
}

// of returns when the timer of an entry fires, and its order, which is 0 if it has none.
func (o *orders) of(i uint32) (at int64, set uint64) {
	p := int(i / keyed.PageLen)
	if p >= len(o.pages) || o.pages[p] == nil {
		return 0, 0
	}
	return o.pages[p].at[i%keyed.PageLen], o.pages[p].set[i%keyed.PageLen]
}

// reach extends the range of numbers to include i, and calls before with the numbers that are added below i.
func (o *orders) reach(i uint32, before func(i uint32)) {
	for ; o.n <= i; o.n++ {
		if o.n < i {
			before(o.n)
		}
	}
}

func (o *orders) set(i uint32, at int64) {
	o.last++
	o.put(i, at, o.last)
}

func (o *orders) put(i uint32, at int64, set uint64) {
	p := int(i / keyed.PageLen)
	for p >= len(o.pages) {
		o.pages = append(o.pages, nil)
	}
	x := o.pages[p]
	if x == nil {
		x = new(orderPage)
		o.pages[p] = x
		o.some++
	}
	if x.set[i%keyed.PageLen] == 0 {
		x.live++
	}
	x.at[i%keyed.PageLen], x.set[i%keyed.PageLen] = at, set
}

func (o *orders) unset(i uint32) {
	p := int(i / keyed.PageLen)
	x := o.pages[p]
	x.set[i%keyed.PageLen] = 0
	if x.live--; x.live > 0 {
		return
	}
	o.pages[p] = nil
	if o.some--; o.some == 0 {
		o.n, o.pages = 0, nil
	}
}

// A deadlinesState saves the timers of a table's entries. Load restores only those whose entry is live; the table is loaded
// earlier.
type deadlinesState[K comparable, V any] struct {
	t      *Deadlines
	table  *keyed.Table[K, V]
	every  bool // every entry has a timer
	loaded map[uint32]timerAt
}

func (s *deadlinesState[K, V]) Kind() string { return "deadlines" }

func (s *deadlinesState[K, V]) Mark(early func(i uint32)) *keyed.Marks {
	if s.t.last == 0 {
		s.t.Each(func(entry uint32, at int64) {
			s.t.reach(entry, func(uint32) {})
			s.t.set(entry, at)
		})
	}
	s.t.marks = keyed.NewMarks(s.t.n, early)
	return s.t.marks
}

func (s *deadlinesState[K, V]) Freeze() { s.t.marks.Freeze() }

func (s *deadlinesState[K, V]) Thaw() {}

func (s *deadlinesState[K, V]) Count() (uint32, int) { return s.t.n, s.t.Len() }

func (s *deadlinesState[K, V]) SaveEntry(dst []byte, _ codec.Codec, i uint32) ([]byte, error) {
	at, set := s.t.of(i)
	dst = binary.AppendUvarint(dst, set)
	if set == 0 {
		return dst, nil
	}
	return binary.AppendVarint(dst, at), nil
}

func (s *deadlinesState[K, V]) EntryKey(i uint32) (any, bool) { return keyAt(s.table, i) }

func (s *deadlinesState[K, V]) LoadEntry(d *codec.Decoder, _ codec.Codec, i uint32) {
	if s.loaded == nil {
		s.loaded = make(map[uint32]timerAt)
	}
	x := timerAt{slot: i, set: d.Uint()}
	if x.set != 0 {
		x.at = d.Int()
	}
	s.loaded[i] = x
}

func (s *deadlinesState[K, V]) Save(dst []byte, _ codec.Codec) ([]byte, error) {
	return binary.AppendUvarint(binary.AppendUvarint(dst, uint64(s.t.n)), s.t.last), nil
}

// Load restores the timers. Whatever was loaded beyond the last number is older and ignored.
func (s *deadlinesState[K, V]) Load(d *codec.Decoder, _ codec.Codec) {
	n, last := d.Uint(), d.Uint()
	loaded := s.loaded
	if s.loaded = nil; d.Err != nil || n > uint64(len(loaded)) {
		d.Fail()
		return
	}
	s.t.clear()
	s.t.last, s.t.n = last, uint32(n)
	var all []timerAt
	for i := range uint32(n) {
		x, there := loaded[i]
		if !there {
			d.Fail()
			return
		}
		if _, _, lives := s.table.At(i); lives && x.set != 0 {
			all = append(all, x)
			s.t.put(i, x.at, x.set)
		}
	}
	inOrder(all)
	for _, x := range all {
		s.t.index.Add(x.slot, x.at)
	}
	if s.every && s.t.Len() != s.table.Len() {
		d.Fail()
	}
}

func (s *deadlinesState[K, V]) Describe(w *codec.Describer) {
	s.t.Each(func(entry uint32, at int64) { w.Entry("at %v: entry %d", time.Duration(at), entry) })
}
