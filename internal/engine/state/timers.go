package state

import (
	"encoding/binary"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
	"github.com/millrace/millrace/internal/timer"
)

// An index is a timer index: by duration where that is constant, else a wheel.
type index interface {
	Add(h uint32, at int64)
	Next() (at int64, ok bool)
	Expire(now int64, fire func(h uint32))
	Each(f func(h uint32, at int64))
	Len() int
}

// Pending are entries that wait for their time, in slots that the index knows by number.
type Pending[K comparable, V any] struct {
	make func() index
	Idx  index
	k    []K
	v    []V
	h    []uint64
	free []uint32
}

// NewPending returns pending entries in m: constant says that all wait equally long.
func NewPending[K comparable, V any](m engine.Memory, constant bool) *Pending[K, V] {
	p := &Pending[K, V]{make: func() index { return timer.NewWheel() }}
	if constant {
		p.make = func() index { return timer.NewFIFO() }
	}
	p.clear()
	m.Add(p.clear, func(op *engine.Op) engine.State { return timersState[K, V]{p, Plain[K](op), Plain[V](op)} })
	return p
}

// clear forgets all timers.
func (p *Pending[K, V]) clear() {
	p.Idx, p.k, p.v, p.h, p.free = p.make(), nil, nil, nil, nil
}

// Slot stores an entry and returns its number.
func (p *Pending[K, V]) Slot(k K, v V, h uint64) uint32 {
	if n := len(p.free); n > 0 {
		slot := p.free[n-1]
		p.free = p.free[:n-1]
		p.k[slot], p.v[slot], p.h[slot] = k, v, h
		return slot
	}
	p.k, p.v, p.h = append(p.k, k), append(p.v, v), append(p.h, h)
	return uint32(len(p.k) - 1)
}

// Take returns the entry of a slot, which is free then.
func (p *Pending[K, V]) Take(slot uint32) (k K, v V, h uint64) {
	var zeroK K
	var zeroV V
	k, v, h = p.k[slot], p.v[slot], p.h[slot]
	p.k[slot], p.v[slot] = zeroK, zeroV
	p.free = append(p.free, slot)
	return k, v, h
}

// A timersState saves pending timers with their entries, in the order in which they
// will fire.
type timersState[K comparable, V any] struct {
	p     *Pending[K, V]
	key   codec.Of[K]
	value codec.Of[V]
}

func (s timersState[K, V]) Kind() string { return "timers(" + s.key.Kind + "," + s.value.Kind + ")" }

func (s timersState[K, V]) Save(dst []byte, c codec.Codec) (_ []byte, err error) {
	p := s.p
	dst = binary.AppendUvarint(dst, uint64(p.Idx.Len()))
	p.Idx.Each(func(slot uint32, at int64) {
		if err != nil {
			return
		}
		dst = binary.AppendVarint(dst, at)
		if dst, err = s.key.Save(dst, c, &p.k[slot]); err == nil {
			dst, err = s.value.Save(dst, c, &p.v[slot])
		}
	})
	return dst, err
}

func (s timersState[K, V]) Load(d *codec.Decoder, c codec.Codec) {
	p, hash := s.p, engine.Hasher[K]()
	p.clear()
	for range d.Count() {
		at := d.Int()
		var k K
		var v V
		s.key.Load(d, c, &k)
		if s.value.Load(d, c, &v); d.Err == nil {
			p.Idx.Add(p.Slot(k, v, hash.Hash(k)), at)
		}
	}
}

func (s timersState[K, V]) Describe(w *codec.Describer) {
	s.p.Idx.Each(func(slot uint32, at int64) { w.Entry("at %v: %v: %+v", time.Duration(at), s.p.k[slot], s.p.v[slot]) })
}

// A deadlinesState saves the timers of a ForgetAfter, whose entries are in a table that
// is loaded before.
type deadlinesState[K comparable, V any] struct {
	idx   *timer.FIFO
	table *keyed.Table[K, V]
}

// NewDeadlines returns timers in m, one for each entry of a table that is in m.
func NewDeadlines[K comparable, V any](m engine.Memory, table *keyed.Table[K, V]) *timer.FIFO {
	idx := timer.NewFIFO()
	m.Add(func() { *idx = *timer.NewFIFO() }, func(*engine.Op) engine.State { return deadlinesState[K, V]{idx, table} })
	return idx
}

func (s deadlinesState[K, V]) Kind() string { return "deadlines" }

func (s deadlinesState[K, V]) Save(dst []byte, _ codec.Codec) ([]byte, error) {
	dst = binary.AppendUvarint(dst, uint64(s.idx.Len()))
	s.idx.Each(func(entry uint32, at int64) {
		dst = binary.AppendUvarint(dst, uint64(entry))
		dst = binary.AppendVarint(dst, at)
	})
	return dst, nil
}

func (s deadlinesState[K, V]) Load(d *codec.Decoder, _ codec.Codec) {
	*s.idx = *timer.NewFIFO()
	for range d.Count() {
		entry := uint32(d.Uint())
		at := d.Int()
		if _, _, lives := s.table.At(entry); !lives {
			d.Fail()
		}
		if d.Err != nil {
			return
		}
		s.idx.Add(entry, at)
	}
	if s.idx.Len() != s.table.Len() { // each entry has a timer
		d.Fail()
	}
}

func (s deadlinesState[K, V]) Describe(w *codec.Describer) {
	s.idx.Each(func(entry uint32, at int64) { w.Entry("at %v: entry %d", time.Duration(at), entry) })
}
