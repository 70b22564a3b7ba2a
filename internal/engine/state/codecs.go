package state

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
)

// Nothing returns the codec of the values of a set.
func Nothing(*engine.Op) codec.Of[struct{}] {
	none := func(dst []byte, _ codec.Codec, _ *struct{}) ([]byte, error) { return dst, nil }
	return codec.Of[struct{}]{Save: none, Load: func(*codec.Decoder, codec.Codec, *struct{}) {}}
}

// numbers returns the codec of a struct of numbers, each encoded as a varint.
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

// A marksState saves marks by partition: the current value, and the value before the end of time. The number of partitions is not
// part of its kind, since it is not determined by the program.
type marksState struct{ at, until []int64 }

func (s *marksState) Kind() string { return "marks" }

func (s *marksState) Save(dst []byte, _ codec.Codec) ([]byte, error) {
	dst = binary.AppendUvarint(dst, uint64(len(s.at)))
	for i := range s.at {
		dst = binary.AppendVarint(binary.AppendVarint(dst, s.at[i]), s.until[i])
	}
	return dst, nil
}

func (s *marksState) Load(d *codec.Decoder, _ codec.Codec) {
	if d.Uint() != uint64(len(s.at)) {
		d.Fail()
		return
	}
	for i := range s.at {
		s.at[i], s.until[i] = d.Int(), d.Int()
	}
}

func (s *marksState) Describe(w *codec.Describer) {
	for i, now := range s.at {
		w.Entry("partition %d: %d", i, now)
	}
}

func (s *marksState) Size() (int, uint64) { return len(s.at), 16 * uint64(len(s.at)) }
