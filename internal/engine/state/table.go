package state

import (
	"encoding/binary"
	"reflect"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// A tableState saves a table together with its numbering, since the numbers determine the order of its entries. It has no type
// parameters, so that its methods are compiled once for all tables.
type tableState struct {
	table            typedTable
	numbers          *keyed.Numbers
	kind             string
	keyType, valType reflect.Type // valType is nil if there are no values
	set              bool         // only keys are saved
	loader           *keyed.Loader
}

// A typedTable does what depends on the types of keys and values. It is an interface, so that a program that saves nothing does
// not link its methods.
type typedTable interface {
	bytes() uint64
	saveEntry(dst []byte, c codec.Codec, i uint32, set bool) ([]byte, error)
	loadEntry(into *keyed.Loader, d *codec.Decoder, c codec.Codec, i uint32, set bool) // an entry that lives
	restore(from *keyed.Loader, next, top uint32, some bool) bool
	entry(i uint32, value bool) (engine.Entry, bool)
	find(key any) (i uint32, ok bool)
}

// tableOf is the [typedTable] of a table.
type tableOf[K comparable, V any] struct {
	t     *keyed.Table[K, V]
	key   codec.Of[K]
	value codec.Of[V]
}

func newTableState[K comparable, V any](t *keyed.Table[K, V], key codec.Of[K], value codec.Of[V]) *tableState {
	_, set := any(*new(V)).(struct{})
	s := &tableState{
		table: &tableOf[K, V]{t, key, value}, numbers: t.Numbers(), kind: "table(" + key.Kind + "," + value.Kind + ")",
		keyType: reflect.TypeFor[K](), valType: reflect.TypeFor[V](), set: set,
	}
	switch {
	case set:
		s.valType = nil
	case value.Show != nil:
		s.valType = value.Type
	}
	return s
}

func (x *tableOf[K, V]) bytes() uint64 { return x.t.Bytes() }

func (x *tableOf[K, V]) saveEntry(dst []byte, c codec.Codec, i uint32, set bool) ([]byte, error) {
	k, v, under, lives := keyed.ImageOf(x.t, i)
	if !lives {
		return appendFree(dst, under), nil
	}
	dst, err := x.key.Save(append(dst, live), c, &k)
	if err != nil || set {
		return dst, err
	}
	return x.value.Save(dst, c, v)
}

func (x *tableOf[K, V]) loadEntry(into *keyed.Loader, d *codec.Decoder, c codec.Codec, i uint32, set bool) {
	k, v := keyed.Live[K, V](into, i)
	if x.key.Load(d, c, k); !set {
		x.value.Load(d, c, v)
	}
}

func (x *tableOf[K, V]) restore(from *keyed.Loader, next, top uint32, some bool) bool {
	return keyed.Restore(x.t, from, next, top, some, engine.Hasher[K]())
}

// entry returns entry i, with its value if value is true.
func (x *tableOf[K, V]) entry(i uint32, value bool) (e engine.Entry, ok bool) {
	k, v, ok := x.t.At(i)
	if !ok {
		return e, false
	}
	switch e.Key = k; {
	case !value:
	case x.value.Show != nil:
		e.Value = x.value.Show(v)
	default:
		e.Value = v
	}
	return e, true
}

func (x *tableOf[K, V]) find(key any) (uint32, bool) {
	i, _, ok := find(x.t, key)
	return i, ok
}

func (s *tableState) Kind() string { return s.kind }

func (s *tableState) Mark(early func(i uint32)) *keyed.Marks { return s.numbers.Save(s.set, early) }

func (s *tableState) Freeze() { s.numbers.Freeze() }

func (s *tableState) Thaw() { s.numbers.Thaw() }

func (s *tableState) Count() (uint32, int) {
	next, _, _ := s.numbers.Next()
	return next, s.numbers.Len()
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

func (s *tableState) SaveEntry(dst []byte, c codec.Codec, i uint32) ([]byte, error) {
	return s.table.saveEntry(dst, c, i, s.set)
}

func (s *tableState) EntryKey(i uint32) (any, bool) {
	e, ok := s.table.entry(i, false)
	return e.Key, ok
}

// keyAt returns the key of entry i of a table.
func keyAt[K comparable, V any](t *keyed.Table[K, V], i uint32) (key any, ok bool) {
	key, _, ok = t.At(i)
	return key, ok
}

func (s *tableState) LoadEntry(d *codec.Decoder, c codec.Codec, i uint32) {
	if s.loader == nil {
		s.loader = new(keyed.Loader)
	}
	switch d.Byte() {
	case freeBottom:
		s.loader.FreeBottom(i)
	case live:
		s.table.loadEntry(s.loader, d, c, i, s.set)
	case freeAbove:
		s.loader.Free(i, uint32(d.Uint()))
	default:
		d.Fail()
	}
}

// Save appends the count of numbers, and the free number that is used next.
func (s *tableState) Save(dst []byte, _ codec.Codec) ([]byte, error) {
	next, free, some := s.numbers.Next()
	dst = binary.AppendUvarint(dst, uint64(next))
	if !some {
		return append(dst, 0), nil
	}
	return binary.AppendUvarint(dst, uint64(free)+1), nil
}

func (s *tableState) Load(d *codec.Decoder, _ codec.Codec) {
	next, free := d.Uint(), d.Uint()
	fill := s.loader
	if s.loader = nil; fill == nil {
		fill = new(keyed.Loader)
	}
	if d.Err == nil && !(next < 1<<32 && s.table.restore(fill, uint32(next), uint32(free-1), free > 0)) {
		d.Fail()
	}
}

func (s *tableState) Describe(w *codec.Describer) {
	s.Entries(0, func(_ uint32, e engine.Entry) bool {
		if s.set {
			e.Value = &struct{}{}
		}
		w.Entry("%v: %+v", e.Key, reflect.ValueOf(e.Value).Elem().Interface())
		return true
	})
}
