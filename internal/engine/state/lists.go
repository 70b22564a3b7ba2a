package state

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// Lists holds the values of each key in order of arrival. Values are in blocks that never move, so neither a new key nor a long
// list costs an allocation of its own.
//
// It maintains: an item with number i is linked from exactly one list if 1 <= i <= n, and is zero otherwise.
type Lists[K comparable, V any] struct {
	Table  *keyed.Table[K, list]
	blocks []*[listBlock]listItem[V]
	n      uint32

	// If the lists are saved entry by entry, each item has an owner.
	marks  *keyed.Marks
	owners []uint32
	loaded map[uint32]ownedItem[V]
}

// An ownedItem is an item with the number of its key.
type ownedItem[V any] struct {
	owner uint32
	value V
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
	l := &Lists[K, V]{Table: keyed.NewTable[K, list]()}
	m.Add(l.clear, func(op *engine.Op) engine.State {
		engine.CheckKey[K](op)
		key := Plain[K](op)
		keys := newTableState(l.Table, key, codec.Of[list]{})
		keys.kind, keys.set = "keys("+key.Kind+")", true
		op.States = append(op.States, keysState{keys})
		return &itemsState[K, V]{l, key, Plain[V](op)}
	})
	return l
}

// Item returns the item with number i, which must exist.
func (l *Lists[K, V]) Item(i uint32) *listItem[V] {
	return &l.blocks[(i-1)/listBlock][(i-1)%listBlock]
}

// Add appends v to the values of k.
func (l *Lists[K, V]) Add(k K, h uint64, v V) {
	i, s, _ := l.Table.PutIndex(k, h)
	if l.marks != nil {
		l.marks.Change(l.n)
		l.owners = append(l.owners, i)
	}
	l.link(s, v)
}

// link appends v to a list.
func (l *Lists[K, V]) link(s *list, v V) {
	if int(l.n/listBlock) == len(l.blocks) {
		l.blocks = append(l.blocks, new([listBlock]listItem[V]))
	}
	l.n++
	l.Item(l.n).V = v
	if s.first == 0 {
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

// An itemsState saves the values of lists, whose keys are in a table that is saved as well. A value never moves, so its key's
// number and the value itself are saved.
type itemsState[K comparable, V any] struct {
	l     *Lists[K, V]
	key   codec.Of[K]
	value codec.Of[V]
}

func (s *itemsState[K, V]) Kind() string { return "lists(" + s.key.Kind + "," + s.value.Kind + ")" }

func (s *itemsState[K, V]) Mark(early func(i uint32)) *keyed.Marks {
	l := s.l
	if uint32(len(l.owners)) != l.n {
		l.owners = make([]uint32, l.n)
		for i := range uint32(l.Table.Len()) { // keys of saved lists are never removed
			_, list, _ := l.Table.At(i)
			for x := list.first; x != 0; x = l.Item(x).Next {
				l.owners[x-1] = i
			}
		}
	}
	l.marks = keyed.NewMarks(l.n, early)
	return l.marks
}

func (s *itemsState[K, V]) Freeze() { s.l.marks.Freeze() }

func (s *itemsState[K, V]) Thaw() {}

func (s *itemsState[K, V]) Count() (uint32, int) { return s.l.n, int(s.l.n) }

func (s *itemsState[K, V]) SaveEntry(dst []byte, c codec.Codec, i uint32) ([]byte, error) {
	return s.value.Save(binary.AppendUvarint(dst, uint64(s.l.owners[i])), c, &s.l.Item(i+1).V)
}

func (s *itemsState[K, V]) EntryKey(i uint32) (any, bool) { return keyAt(s.l.Table, s.l.owners[i]) }

func (s *itemsState[K, V]) LoadEntry(d *codec.Decoder, c codec.Codec, i uint32) {
	if s.l.loaded == nil {
		s.l.loaded = make(map[uint32]ownedItem[V])
	}
	x := ownedItem[V]{owner: uint32(d.Uint())}
	s.value.Load(d, c, &x.value)
	s.l.loaded[i] = x
}

func (s *itemsState[K, V]) Save(dst []byte, _ codec.Codec) ([]byte, error) {
	return binary.AppendUvarint(dst, uint64(s.l.n)), nil
}

func (s *itemsState[K, V]) Load(d *codec.Decoder, _ codec.Codec) {
	n, l, loaded := d.Uint(), s.l, s.l.loaded
	if l.loaded = nil; d.Err != nil || n != uint64(len(loaded)) {
		d.Fail()
		return
	}
	l.blocks, l.n, l.owners = nil, 0, nil
	for i := range uint32(n) {
		x, there := loaded[i]
		_, list, lives := l.Table.At(x.owner)
		if !there || !lives {
			d.Fail()
			return
		}
		l.link(list, x.value)
	}
}

func (s *itemsState[K, V]) Describe(w *codec.Describer) {
	for k, list := range keyed.All(s.l.Table) {
		var all []V
		for i := list.first; i != 0; i = s.l.Item(i).Next {
			all = append(all, s.l.Item(i).V)
		}
		w.Entry("%v: %+v", k, all)
	}
}

// A keysState saves the keys of lists.
type keysState struct{ *tableState }

func (s keysState) Describe(*codec.Describer) {}
