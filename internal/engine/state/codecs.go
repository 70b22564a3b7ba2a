package state

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// Nothing is the form of the values of a set.
func Nothing(*engine.Op) codec.Of[struct{}] {
	none := func(dst []byte, _ codec.Codec, _ *struct{}) ([]byte, error) { return dst, nil }
	return codec.Of[struct{}]{Save: none, Load: func(*codec.Decoder, codec.Codec, *struct{}) {}}
}

// numbers is the form of some numbers, each as few bytes as it needs.
func numbers[T any](kind string, of func(*T) []*uint64) codec.Of[T] {
	return codec.Of[T]{
		Kind: kind,
		Save: func(dst []byte, _ codec.Codec, x *T) ([]byte, error) {
			for _, n := range of(x) {
				dst = binary.AppendUvarint(dst, *n)
			}
			return dst, nil
		},
		Load: func(d *codec.Decoder, _ codec.Codec, x *T) {
			for _, n := range of(x) {
				*n = d.Uint()
			}
		},
	}
}
