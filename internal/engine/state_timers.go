package engine

import (
	"encoding/binary"
	"time"

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

// pending are entries that wait for their time, in slots that the index knows by number.
type pending[K comparable, V any] struct {
	make func() index
	idx  index
	k    []K
	v    []V
	h    []uint64
	free []uint32
}

// newPending returns pending entries in m: constant says that all wait equally long.
func newPending[K comparable, V any](m memory, constant bool) *pending[K, V] {
	p := &pending[K, V]{make: func() index { return timer.NewWheel() }}
	if constant {
		p.make = func() index { return timer.NewFIFO() }
	}
	p.clear()
	m.add(p.clear, func(op *Op) state { return timersState[K, V]{p, plain[K](op), plain[V](op)} })
	return p
}

// clear forgets all timers.
func (p *pending[K, V]) clear() {
	p.idx, p.k, p.v, p.h, p.free = p.make(), nil, nil, nil, nil
}

// slot stores an entry and returns its number.
func (p *pending[K, V]) slot(k K, v V, h uint64) uint32 {
	if n := len(p.free); n > 0 {
		slot := p.free[n-1]
		p.free = p.free[:n-1]
		p.k[slot], p.v[slot], p.h[slot] = k, v, h
		return slot
	}
	p.k, p.v, p.h = append(p.k, k), append(p.v, v), append(p.h, h)
	return uint32(len(p.k) - 1)
}

// take returns the entry of a slot, which is free then.
func (p *pending[K, V]) take(slot uint32) (k K, v V, h uint64) {
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
	p     *pending[K, V]
	key   form[K]
	value form[V]
}

func (s timersState[K, V]) kind() string { return "timers(" + s.key.kind + "," + s.value.kind + ")" }

func (s timersState[K, V]) save(dst []byte, c Codec) (_ []byte, err error) {
	p := s.p
	dst = binary.AppendUvarint(dst, uint64(p.idx.Len()))
	p.idx.Each(func(slot uint32, at int64) {
		if err != nil {
			return
		}
		dst = binary.AppendVarint(dst, at)
		if dst, err = s.key.save(dst, c, &p.k[slot]); err == nil {
			dst, err = s.value.save(dst, c, &p.v[slot])
		}
	})
	return dst, err
}

func (s timersState[K, V]) load(d *decoder, c Codec) {
	p, hash := s.p, hasher[K]()
	p.clear()
	for range d.count() {
		at := d.int()
		var k K
		var v V
		s.key.load(d, c, &k)
		if s.value.load(d, c, &v); d.err == nil {
			p.idx.Add(p.slot(k, v, hash.Hash(k)), at)
		}
	}
}

func (s timersState[K, V]) describe(w *describer) {
	s.p.idx.Each(func(slot uint32, at int64) { w.entry("at %v: %v: %+v", time.Duration(at), s.p.k[slot], s.p.v[slot]) })
}

// A deadlinesState saves the timers of a ForgetAfter, whose entries are in a table that
// is loaded before.
type deadlinesState[K comparable, V any] struct {
	idx   *timer.FIFO
	table *keyed.Table[K, V]
}

// newDeadlines returns timers in m, one for each entry of a table that is in m.
func newDeadlines[K comparable, V any](m memory, table *keyed.Table[K, V]) *timer.FIFO {
	idx := timer.NewFIFO()
	m.add(func() { *idx = *timer.NewFIFO() }, func(*Op) state { return deadlinesState[K, V]{idx, table} })
	return idx
}

func (s deadlinesState[K, V]) kind() string { return "deadlines" }

func (s deadlinesState[K, V]) save(dst []byte, _ Codec) ([]byte, error) {
	dst = binary.AppendUvarint(dst, uint64(s.idx.Len()))
	s.idx.Each(func(entry uint32, at int64) {
		dst = binary.AppendUvarint(dst, uint64(entry))
		dst = binary.AppendVarint(dst, at)
	})
	return dst, nil
}

func (s deadlinesState[K, V]) load(d *decoder, _ Codec) {
	*s.idx = *timer.NewFIFO()
	for range d.count() {
		entry := uint32(d.uint())
		at := d.int()
		if _, _, lives := s.table.At(entry); !lives {
			d.fail()
		}
		if d.err != nil {
			return
		}
		s.idx.Add(entry, at)
	}
	if s.idx.Len() != s.table.Len() { // each entry has a timer
		d.fail()
	}
}

func (s deadlinesState[K, V]) describe(w *describer) {
	s.idx.Each(func(entry uint32, at int64) { w.entry("at %v: entry %d", time.Duration(at), entry) })
}
