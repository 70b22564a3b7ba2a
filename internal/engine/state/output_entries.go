package state

import (
	"fmt"
	"iter"
	"reflect"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// Entries are the entries of an output.
//
// In memory they hold the values. In a kept flow, values with pointers are held encoded: an output may keep millions of unread
// entries, which take a half or a third of the memory this way, and the location that gives an entry and the port that shows it
// share one copy. Each reader of an entry gets a value of its own.
type Entries[K comparable, V any] struct {
	plain  *keyed.Table[K, V]      // nil if values are packed
	packed *keyed.Table[K, string] // nil if they are not
	codec  codec.Codec
}

// NewEntries returns the entries of an output of op.
func NewEntries[K comparable, V any](op *engine.Op) Entries[K, V] {
	s := Entries[K, V]{codec: op.Loc.Graph.Settings.Codec}
	if m := engine.Lasting(op); s.codec != nil && worthPacking(reflect.TypeFor[V]()) && !codec.IsView((*V)(nil)) {
		s.packed = NewTable(m, Plain[K], Packed[V])
	} else {
		s.plain = NewTable(m, Plain[K], Plain[V])
	}
	return s
}

// Packs reports whether values are packed.
func (s *Entries[K, V]) Packs() bool { return s.packed != nil }

// AllPacked iterates over the entries as they are kept, if values are packed.
func (s *Entries[K, V]) AllPacked() iter.Seq2[K, *string] { return keyed.All(s.packed) }

// Codec returns the codec of packed values.
func (s *Entries[K, V]) Codec() codec.Codec { return s.codec }

// worthPacking reports whether values of a type have parts elsewhere in memory, other than strings.
func worthPacking(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return true
	case reflect.Array:
		return worthPacking(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			if worthPacking(t.Field(i).Type) {
				return true
			}
		}
	}
	return false
}

// Pack returns the packed form of a value: a copy of its encoding, which the caller may already have.
func (s *Entries[K, V]) Pack(v *V, encoded []byte) (string, error) {
	if encoded == nil {
		data, err := codec.AppendFrom(nil, s.codec, v)
		if err != nil {
			return "", err
		}
		encoded = (&codec.Decoder{Data: data}).Bytes()
	}
	return string(encoded), nil
}

// Unpack returns the value of a packed form. The form was decoded once before it was kept, so an error means that the codec is
// not deterministic.
func (s *Entries[K, V]) Unpack(packed string) (v V, err error) {
	if err = s.codec.Decode([]byte(packed), &v); err != nil {
		return v, fmt.Errorf("dataflow: decoding a %T that was decoded before: %w", v, err)
	}
	return v, nil
}

// Get returns the value of k, if there is one.
func (s *Entries[K, V]) Get(k K, h uint64) (v V, ok bool, err error) {
	if s.packed == nil {
		if p := s.plain.Get(k, h); p != nil {
			return *p, true, nil
		}
		return v, false, nil
	}
	p := s.packed.Get(k, h)
	if p == nil {
		return v, false, nil
	}
	v, err = s.Unpack(*p)
	return v, err == nil, err
}

// Has reports whether k has an entry.
func (s *Entries[K, V]) Has(k K, h uint64) bool {
	if s.packed == nil {
		return s.plain.Get(k, h) != nil
	}
	return s.packed.Get(k, h) != nil
}

// Put adds an entry, if values are not packed.
func (s *Entries[K, V]) Put(k K, h uint64, v V) (added bool) {
	p, added := s.plain.Put(k, h)
	*p = v
	return added
}

// PutPacked adds an entry, if values are packed.
func (s *Entries[K, V]) PutPacked(k K, h uint64, packed string) (added bool) {
	p, added := s.packed.Put(k, h)
	*p = packed
	return added
}

// Delete deletes the entry of k, and reports whether there was one.
func (s *Entries[K, V]) Delete(k K, h uint64) bool {
	if s.packed == nil {
		return s.plain.Delete(k, h)
	}
	return s.packed.Delete(k, h)
}

// Len returns the number of entries.
func (s *Entries[K, V]) Len() int {
	if s.packed == nil {
		return s.plain.Len()
	}
	return s.packed.Len()
}

// Bytes returns the memory that the entries take, without what values have elsewhere.
func (s *Entries[K, V]) Bytes() uint64 {
	if s.packed == nil {
		return s.plain.Bytes()
	}
	return s.packed.Bytes()
}

// Keys iterates over the keys.
func (s *Entries[K, V]) Keys() iter.Seq[K] {
	return func(yield func(K) bool) {
		if s.packed == nil {
			for k := range keyed.All(s.plain) {
				if !yield(k) {
					return
				}
			}
			return
		}
		for k := range keyed.All(s.packed) {
			if !yield(k) {
				return
			}
		}
	}
}

// AppendValue appends the length and the encoding of the value of a key, if there is one.
func (s *Entries[K, V]) AppendValue(dst []byte, k K, h uint64) (_ []byte, ok bool, err error) {
	if s.packed == nil {
		p := s.plain.Get(k, h)
		if p == nil {
			return dst, false, nil
		}
		dst, err = codec.AppendFrom(dst, s.codec, p)
		return dst, err == nil, err
	}
	p := s.packed.Get(k, h)
	if p == nil {
		return dst, false, nil
	}
	return codec.AppendString(dst, *p), true, nil
}
