package state

import (
	"encoding/binary"
	"reflect"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// A tableState saves a table together with its numbering, since the numbers determine the order of its entries.
type tableState[K comparable, V any] struct {
	table  *keyed.Table[K, V]
	key    codec.Of[K]
	value  codec.Of[V]
	set    bool // only keys are saved
	loader *keyed.Loader[K, V]
}

func newTableState[K comparable, V any](t *keyed.Table[K, V], key codec.Of[K], value codec.Of[V]) *tableState[K, V] {
	_, set := any(*new(V)).(struct{})
	return &tableState[K, V]{table: t, key: key, value: value, set: set}
}

func (s *tableState[K, V]) Kind() string { return "table(" + s.key.Kind + "," + s.value.Kind + ")" }

func (s *tableState[K, V]) Mark(early func(i uint32)) *keyed.Marks {
	return s.table.Save(s.set, early)
}

func (s *tableState[K, V]) Freeze() { s.table.Freeze() }

func (s *tableState[K, V]) Thaw() { s.table.Thaw() }

func (s *tableState[K, V]) Count() (uint32, int) {
	next, _, _ := s.table.Next()
	return next, s.table.Len()
}

// What a saved number is.
const (
	freeBottom = iota // free, the bottom of the stack of free numbers
	live
	freeAbove // free, on top of another free number
)

func appendFree(dst []byte, under uint32) []byte {
	if keyed.Under(under) {
		return binary.AppendUvarint(append(dst, freeAbove), uint64(under))
	}
	return append(dst, freeBottom)
}

func (s *tableState[K, V]) SaveEntry(dst []byte, c codec.Codec, i uint32) ([]byte, error) {
	k, v, under, lives := s.table.Image(i)
	if !lives {
		return appendFree(dst, under), nil
	}
	dst, err := s.key.Save(append(dst, live), c, &k)
	if err != nil || s.set {
		return dst, err
	}
	return s.value.Save(dst, c, v)
}

func (s *tableState[K, V]) EntryKey(i uint32) (any, bool) { return keyAt(s.table, i) }

// keyAt returns the key of entry i of a table.
func keyAt[K comparable, V any](t *keyed.Table[K, V], i uint32) (key any, ok bool) {
	key, _, ok = t.At(i)
	return key, ok
}

func (s *tableState[K, V]) LoadEntry(d *codec.Decoder, c codec.Codec, i uint32) {
	if s.loader == nil {
		s.loader = new(keyed.Loader[K, V])
	}
	switch d.Byte() {
	case freeBottom:
		s.loader.FreeBottom(i)
	case live:
		k, v := s.loader.Live(i)
		if s.key.Load(d, c, k); !s.set {
			s.value.Load(d, c, v)
		}
	case freeAbove:
		s.loader.Free(i, uint32(d.Uint()))
	default:
		d.Fail()
	}
}

// Save appends the count of numbers, and the free number that is used next.
func (s *tableState[K, V]) Save(dst []byte, _ codec.Codec) ([]byte, error) {
	next, free, some := s.table.Next()
	dst = binary.AppendUvarint(dst, uint64(next))
	if !some {
		return append(dst, 0), nil
	}
	return binary.AppendUvarint(dst, uint64(free)+1), nil
}

func (s *tableState[K, V]) Load(d *codec.Decoder, _ codec.Codec) {
	next, free := d.Uint(), d.Uint()
	fill := s.loader
	if s.loader = nil; fill == nil {
		fill = new(keyed.Loader[K, V])
	}
	if d.Err == nil && !(next < 1<<32 && fill.Into(s.table, uint32(next), uint32(free-1), free > 0, engine.Hasher[K]())) {
		d.Fail()
	}
}

func (s *tableState[K, V]) Describe(w *codec.Describer) {
	for k, v := range s.table.All() {
		if s.value.Show != nil {
			w.Entry("%v: %+v", k, reflect.ValueOf(s.value.Show(v)).Elem().Interface())
			continue
		}
		w.Entry("%v: %+v", k, *v)
	}
}
