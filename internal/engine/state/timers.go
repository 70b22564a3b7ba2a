package state

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
	"github.com/millrace/millrace/internal/timer"
)

// An index is a timer index: a FIFO if the duration is constant, otherwise a wheel.
type index interface {
	Add(h uint32, at int64)
	At(h uint32) int64
	Cancel(h uint32) bool
	Next() (at int64, ok bool)
	Expire(now int64, fire func(h uint32))
	Each(f func(h uint32, at int64))
	Len() int
}

// Pending holds entries that wait for their time, in slots that the index refers to by number. A held entry is in its slot, and
// not in the index.
type Pending[K comparable, V any] struct {
	make func() index
	Idx  index
	held held
	k    []K
	v    []V
	h    []uint64
	free []uint32

	// Used if the timers are saved entry by entry: when each was set, and which slot each free slot was put upon. Timers of one
	// deadline fire in the order in which they were set.
	marks *keyed.Marks
	order order
	under []uint32
}

// An order numbers slots in the order in which they are set.
type order struct {
	last uint64
	of   []uint64
}

func (o *order) set(i uint32) {
	for int(i) >= len(o.of) {
		o.of = append(o.of, 0)
	}
	o.last++
	o.of[i] = o.last
}

// A timerAt is a timer that was loaded.
type timerAt struct {
	slot uint32
	at   int64
	set  uint64
}

// inOrder sorts timers into the order in which they will fire.
func inOrder(all []timerAt) {
	slices.SortFunc(all, func(a, b timerAt) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.set, b.set)) })
}

// NewPending returns pending entries in m. constant says that all of them wait equally long.
func NewPending[K comparable, V any](m engine.Memory, constant bool) *Pending[K, V] {
	p := &Pending[K, V]{make: func() index { return timer.NewWheel() }}
	if constant {
		p.make = func() index { return timer.NewFIFO() }
	}
	p.clear()
	m.Add(p.clear, func(op *engine.Op) engine.State {
		return &timersState[K, V]{p: p, key: Plain[K](op), value: Plain[V](op)}
	})
	return p
}

// Keys makes a simulation fire only the timers of keys of an operator that are picked. It is called before a timer is set.
func (p *Pending[K, V]) Keys(op *engine.Op) {
	if op.Loc.Simulated() {
		p.make = selective(op, func(slot uint32) any { return p.k[slot] })
		p.Idx = p.make()
	}
}

// EachKey calls do with the key and the deadline of each timer, in the order in which they will fire.
func (p *Pending[K, V]) EachKey(do func(key any, at int64)) {
	p.Idx.Each(func(slot uint32, at int64) { do(p.k[slot], at) })
}

// clear drops all timers.
func (p *Pending[K, V]) clear() {
	*p = Pending[K, V]{make: p.make, Idx: p.make()}
}

// Slot stores an entry and returns its number.
func (p *Pending[K, V]) Slot(k K, v V, h uint64) uint32 {
	slot := uint32(len(p.k))
	n := len(p.free)
	if n > 0 {
		slot = p.free[n-1]
	}
	if p.marks != nil {
		p.marks.Change(slot)
		p.order.set(slot)
	}
	if n > 0 {
		p.free = p.free[:n-1]
		p.k[slot], p.v[slot], p.h[slot] = k, v, h
		return slot
	}
	p.k, p.v, p.h = append(p.k, k), append(p.v, v), append(p.h, h)
	return slot
}

// Take returns the entry of a slot and frees the slot.
func (p *Pending[K, V]) Take(slot uint32) (k K, v V, h uint64) {
	var zeroK K
	var zeroV V
	if p.marks != nil {
		p.marks.Change(slot)
		p.order.of[slot] = 0
		p.link(slot, p.top())
	}
	k, v, h = p.k[slot], p.v[slot], p.h[slot]
	p.k[slot], p.v[slot] = zeroK, zeroV
	p.free = append(p.free, slot)
	return k, v, h
}

// Cancel cancels the timer of a slot and frees the slot. The timer may be held.
func (p *Pending[K, V]) Cancel(slot uint32) {
	if !p.Idx.Cancel(slot) {
		p.held.remove(slot)
	}
	p.Take(slot)
}

// top returns one plus the slot that is taken next, or 0 if none is free.
func (p *Pending[K, V]) top() uint32 {
	if n := len(p.free); n > 0 {
		return p.free[n-1] + 1
	}
	return 0
}

func (p *Pending[K, V]) link(slot, under uint32) {
	for int(slot) >= len(p.under) {
		p.under = append(p.under, 0)
	}
	p.under[slot] = under
}

// A timersState saves pending timers with their entries, by slot. For a free slot it saves the slot upon which it was put.
type timersState[K comparable, V any] struct {
	p      *Pending[K, V]
	key    codec.Of[K]
	value  codec.Of[V]
	loaded map[uint32]loadedTimer[K, V]
}

// A loadedTimer is what was loaded for a slot. A free slot has set 0.
type loadedTimer[K comparable, V any] struct {
	timerAt
	k     K
	v     V
	under uint32
}

func (s *timersState[K, V]) Kind() string {
	return "timers(" + s.key.Kind + "," + s.value.Kind + ")"
}

func (s *timersState[K, V]) Mark(early func(i uint32)) *keyed.Marks {
	p := s.p
	if p.order.last == 0 {
		p.Idx.Each(func(slot uint32, _ int64) { p.order.set(slot) })
		for _, slot := range p.held {
			p.order.set(slot)
		}
		for len(p.order.of) < len(p.k) {
			p.order.of = append(p.order.of, 0)
		}
		under := uint32(0)
		for _, slot := range p.free {
			p.link(slot, under)
			under = slot + 1
		}
	}
	p.marks = keyed.NewMarks(uint32(len(p.k)), early)
	return p.marks
}

func (s *timersState[K, V]) Freeze() { s.p.marks.Freeze() }

func (s *timersState[K, V]) Thaw() {}

func (s *timersState[K, V]) Count() (uint32, int) { return uint32(len(s.p.k)), s.p.Len() }

func (s *timersState[K, V]) SaveEntry(dst []byte, c codec.Codec, i uint32) ([]byte, error) {
	p := s.p
	dst = binary.AppendUvarint(dst, p.order.of[i])
	if p.order.of[i] == 0 {
		return binary.AppendUvarint(dst, uint64(p.under[i])), nil
	}
	dst, err := s.key.Save(binary.AppendVarint(dst, p.at(i)), c, &p.k[i])
	if err != nil {
		return dst, err
	}
	return s.value.Save(dst, c, &p.v[i])
}

func (s *timersState[K, V]) EntryKey(i uint32) (any, bool) { return s.p.k[i], s.p.order.of[i] != 0 }

func (s *timersState[K, V]) LoadEntry(d *codec.Decoder, c codec.Codec, i uint32) {
	if s.loaded == nil {
		s.loaded = make(map[uint32]loadedTimer[K, V])
	}
	x := loadedTimer[K, V]{timerAt: timerAt{slot: i, set: d.Uint()}}
	if x.set == 0 {
		x.under = uint32(d.Uint())
	} else {
		x.at = d.Int()
		s.key.Load(d, c, &x.k)
		s.value.Load(d, c, &x.v)
	}
	s.loaded[i] = x
}

// Save appends the number of slots, the free slot that is taken next, and how often a timer was set.
func (s *timersState[K, V]) Save(dst []byte, _ codec.Codec) ([]byte, error) {
	dst = binary.AppendUvarint(dst, uint64(len(s.p.k)))
	dst = binary.AppendUvarint(dst, uint64(s.p.top()))
	return binary.AppendUvarint(dst, s.p.order.last), nil
}

func (s *timersState[K, V]) Load(d *codec.Decoder, _ codec.Codec) {
	n, top, last := d.Uint(), d.Uint(), d.Uint()
	loaded := s.loaded
	if s.loaded = nil; d.Err != nil || n != uint64(len(loaded)) {
		d.Fail()
		return
	}
	p, hash := s.p, engine.Hasher[K]()
	p.clear()
	p.k, p.v, p.h = make([]K, n), make([]V, n), make([]uint64, n)
	p.order, p.under = order{last, make([]uint64, n)}, make([]uint32, n)
	var all []timerAt
	for i := range uint32(n) {
		x, there := loaded[i]
		if !there {
			d.Fail()
			return
		}
		if p.under[i], p.order.of[i] = x.under, x.set; x.set != 0 {
			p.k[i], p.v[i], p.h[i] = x.k, x.v, hash.Hash(x.k)
			all = append(all, x.timerAt)
		}
	}
	inOrder(all)
	for _, x := range all {
		if x.at == engine.NoDeadline {
			p.held.add(x.slot)
		} else {
			p.Idx.Add(x.slot, x.at)
		}
	}
	for top > 0 && len(p.free) < int(n)-len(all) {
		if top > n || p.order.of[top-1] != 0 {
			break
		}
		p.free = append(p.free, uint32(top-1))
		top = uint64(p.under[top-1])
	}
	if slices.Reverse(p.free); top > 0 || len(p.free)+len(all) != int(n) {
		d.Fail()
	}
}

func (s *timersState[K, V]) Describe(w *codec.Describer) {
	s.p.Idx.Each(func(slot uint32, at int64) { w.Entry("at %v: %v: %+v", time.Duration(at), s.p.k[slot], s.p.v[slot]) })
	for _, slot := range s.p.held {
		w.Entry("held: %v: %+v", s.p.k[slot], s.p.v[slot])
	}
}
