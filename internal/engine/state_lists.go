package engine

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/keyed"
)

// lists holds the values of each key in order of arrival. Values are in blocks that
// never move, so that neither a new key nor a long list costs an allocation of its
// own.
//
// It maintains: an item with number i is linked from exactly one list if
// 1 <= i <= n, and is zero otherwise.
type lists[K comparable, V any] struct {
	table  *keyed.Table[K, list]
	blocks []*[listBlock]listItem[V]
	n      uint32
}

const listBlock = 256

// A list is the numbers of its first and last item.
type list struct{ first, last uint32 }

type listItem[V any] struct {
	v    V
	next uint32 // 0 at the end
}

// newLists returns lists in m.
func newLists[K comparable, V any](m memory) *lists[K, V] {
	l := emptyLists[K, V]()
	m.add(l.clear, func(op *Op) state { return listsState[K, V]{l, plain[K](op), plain[V](op)} })
	return l
}

func emptyLists[K comparable, V any]() *lists[K, V] {
	return &lists[K, V]{table: keyed.NewTable[K, list]()}
}

func (l *lists[K, V]) item(i uint32) *listItem[V] {
	return &l.blocks[(i-1)/listBlock][(i-1)%listBlock]
}

// add appends v to the values of k.
func (l *lists[K, V]) add(k K, h uint64, v V) {
	if int(l.n/listBlock) == len(l.blocks) {
		l.blocks = append(l.blocks, new([listBlock]listItem[V]))
	}
	l.n++
	l.item(l.n).v = v
	s, added := l.table.Put(k, h)
	if added {
		s.first = l.n
	} else {
		l.item(s.last).next = l.n
	}
	s.last = l.n
}

// first returns the number of the first value of k, or 0.
func (l *lists[K, V]) first(k K, h uint64) uint32 {
	if s := l.table.Get(k, h); s != nil {
		return s.first
	}
	return 0
}

// clear removes everything and keeps a little memory for the next run of a region.
func (l *lists[K, V]) clear() {
	const keep = 16
	used := (l.n + listBlock - 1) / listBlock
	if len(l.blocks) > keep {
		clear(l.blocks[keep:])
		l.blocks = l.blocks[:keep]
	}
	for i := range min(used, keep) {
		clear(l.blocks[i][:])
	}
	l.table.Clear()
	l.n = 0
}

// A listsState saves the values of each key.
type listsState[K comparable, V any] struct {
	l     *lists[K, V]
	key   form[K]
	value form[V]
}

func (s listsState[K, V]) kind() string { return "lists(" + s.key.kind + "," + s.value.kind + ")" }

func (s listsState[K, V]) save(dst []byte, c Codec) (_ []byte, err error) {
	dst = binary.AppendUvarint(dst, uint64(s.l.table.Len()))
	for k, list := range s.l.table.All() {
		if dst, err = s.key.save(dst, c, &k); err != nil {
			return dst, err
		}
		n := uint64(0)
		for i := list.first; i != 0; i = s.l.item(i).next {
			n++
		}
		dst = binary.AppendUvarint(dst, n)
		for i := list.first; i != 0; i = s.l.item(i).next {
			if dst, err = s.value.save(dst, c, &s.l.item(i).v); err != nil {
				return dst, err
			}
		}
	}
	return dst, nil
}

func (s listsState[K, V]) load(d *decoder, c Codec) {
	l := emptyLists[K, V]()
	hash := hasher[K]()
	for range d.count() {
		var k K
		s.key.load(d, c, &k)
		for range d.count() {
			var v V
			if s.value.load(d, c, &v); d.err == nil {
				l.add(k, hash.Hash(k), v)
			}
		}
	}
	if d.err == nil {
		*s.l = *l
	}
}

func (s listsState[K, V]) describe(w *describer) {
	for k, list := range s.l.table.All() {
		var all []V
		for i := list.first; i != 0; i = s.l.item(i).next {
			all = append(all, s.l.item(i).v)
		}
		w.entry("%v: %+v", k, all)
	}
}
