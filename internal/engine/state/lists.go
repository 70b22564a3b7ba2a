package state

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// Lists holds the values of each key in order of arrival. Values are in blocks that
// never move, so that neither a new key nor a long list costs an allocation of its
// own.
//
// It maintains: an item with number i is linked from exactly one list if
// 1 <= i <= n, and is zero otherwise.
type Lists[K comparable, V any] struct {
	Table  *keyed.Table[K, list]
	blocks []*[listBlock]listItem[V]
	n      uint32
}

const listBlock = 256

// A list is the numbers of its first and last item.
type list struct{ first, last uint32 }

type listItem[V any] struct {
	V    V
	Next uint32 // 0 at the end
}

// NewLists returns lists in m.
func NewLists[K comparable, V any](m engine.Memory) *Lists[K, V] {
	l := emptyLists[K, V]()
	m.Add(l.clear, func(op *engine.Op) engine.State { return listsState[K, V]{l, Plain[K](op), Plain[V](op)} })
	return l
}

func emptyLists[K comparable, V any]() *Lists[K, V] {
	return &Lists[K, V]{Table: keyed.NewTable[K, list]()}
}

// Item returns the item with number i, which is there.
func (l *Lists[K, V]) Item(i uint32) *listItem[V] {
	return &l.blocks[(i-1)/listBlock][(i-1)%listBlock]
}

// Add appends v to the values of k.
func (l *Lists[K, V]) Add(k K, h uint64, v V) {
	if int(l.n/listBlock) == len(l.blocks) {
		l.blocks = append(l.blocks, new([listBlock]listItem[V]))
	}
	l.n++
	l.Item(l.n).V = v
	s, added := l.Table.Put(k, h)
	if added {
		s.first = l.n
	} else {
		l.Item(s.last).Next = l.n
	}
	s.last = l.n
}

// First returns the number of the first value of k, or 0.
func (l *Lists[K, V]) First(k K, h uint64) uint32 {
	if s := l.Table.Get(k, h); s != nil {
		return s.first
	}
	return 0
}

// clear removes everything and keeps a little memory for the next run of a region.
func (l *Lists[K, V]) clear() {
	const keep = 16
	used := (l.n + listBlock - 1) / listBlock
	if len(l.blocks) > keep {
		clear(l.blocks[keep:])
		l.blocks = l.blocks[:keep]
	}
	for i := range min(used, keep) {
		clear(l.blocks[i][:])
	}
	l.Table.Clear()
	l.n = 0
}

// A listsState saves the values of each key.
type listsState[K comparable, V any] struct {
	l     *Lists[K, V]
	key   codec.Of[K]
	value codec.Of[V]
}

func (s listsState[K, V]) Kind() string { return "lists(" + s.key.Kind + "," + s.value.Kind + ")" }

func (s listsState[K, V]) Save(dst []byte, c codec.Codec) (_ []byte, err error) {
	dst = binary.AppendUvarint(dst, uint64(s.l.Table.Len()))
	for k, list := range s.l.Table.All() {
		if dst, err = s.key.Save(dst, c, &k); err != nil {
			return dst, err
		}
		n := uint64(0)
		for i := list.first; i != 0; i = s.l.Item(i).Next {
			n++
		}
		dst = binary.AppendUvarint(dst, n)
		for i := list.first; i != 0; i = s.l.Item(i).Next {
			if dst, err = s.value.Save(dst, c, &s.l.Item(i).V); err != nil {
				return dst, err
			}
		}
	}
	return dst, nil
}

func (s listsState[K, V]) Load(d *codec.Decoder, c codec.Codec) {
	l := emptyLists[K, V]()
	hash := engine.Hasher[K]()
	for range d.Count() {
		var k K
		s.key.Load(d, c, &k)
		for range d.Count() {
			var v V
			if s.value.Load(d, c, &v); d.Err == nil {
				l.Add(k, hash.Hash(k), v)
			}
		}
	}
	if d.Err == nil {
		*s.l = *l
	}
}

func (s listsState[K, V]) Describe(w *codec.Describer) {
	for k, list := range s.l.Table.All() {
		var all []V
		for i := list.first; i != 0; i = s.l.Item(i).Next {
			all = append(all, s.l.Item(i).V)
		}
		w.Entry("%v: %+v", k, all)
	}
}
