package state

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/cow"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// Nothing is the form of the values of a set.
func Nothing(*engine.Op) codec.Of[struct{}] {
	return codec.Of[struct{}]{
		Save: func(dst []byte, _ codec.Codec, _ *struct{}) ([]byte, error) { return append(dst, 0), nil },
		Load: func(d *codec.Decoder, _ codec.Codec, _ *struct{}) { d.Byte() },
	}
}

// A viewState saves a map from which views are made, and what its value node has.
type viewState[K comparable, V any] struct {
	m     *cow.Map[K, V]
	set   func()
	key   codec.Of[K]
	value codec.Of[V]
}

func (s viewState[K, V]) Kind() string { return "view(" + s.key.Kind + "," + s.value.Kind + ")" }

func (s viewState[K, V]) Save(dst []byte, c codec.Codec) (_ []byte, err error) {
	dst = binary.AppendUvarint(dst, uint64(s.m.Len()))
	for k, v := range s.m.View().All() {
		if dst, err = s.key.Save(dst, c, &k); err == nil {
			dst, err = s.value.Save(dst, c, &v)
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (s viewState[K, V]) Load(d *codec.Decoder, c codec.Codec) {
	*s.m = *cow.NewMap[K, V]()
	for range d.Count() {
		var k K
		var v V
		s.key.Load(d, c, &k)
		if s.value.Load(d, c, &v); d.Err == nil {
			s.m.Set(k, v)
		}
	}
	s.set()
}

func (s viewState[K, V]) Describe(w *codec.Describer) {
	for k, v := range s.m.View().All() {
		w.Entry("%v: %+v", k, v)
	}
}
