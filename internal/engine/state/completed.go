package state

import (
	"fmt"
	"unsafe"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// Keys is a set of keys that an operator is done with, or that were accepted. Each key comes with its hash.
type Keys[K comparable] interface {
	Has(k K, h uint64) bool
	Put(k K, h uint64) (added bool)
	Add(k K, h uint64) // adds a key that is not in the set
	Touch(hs []uint64) // prefetches the memory for keys with these hashes
}

// A Sequence makes a set of keys that clients count.
type Sequence[K comparable] struct {
	Make  func(engine.Memory) Keys[K]
	Check func(K) error // returns why a key cannot be counted, or nil
}

// Countable returns an error if a key cannot be counted, because number panics, and nil otherwise.
func Countable[K, C comparable](number func(K) (C, uint64), k K) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the function that counts it panics: %v", v)
		}
	}()
	number(k)
	return nil
}

// NewSequence returns a set in m of the numbers of keys.
func NewSequence[C comparable](m engine.Memory) *keyed.Sequence[C] {
	set := keyed.NewSequence[C]()
	clients, words := set.Tables()
	m.Add(set.Clear, func(op *engine.Op) engine.State {
		engine.CheckKey[C](op)
		op.States = append(op.States, newTableState(clients, Plain[C](op), clientCodec))
		return newTableState(words, blockCodec, wordCodec)
	})
	return set
}

// The codecs of the parts of a set of numbers.
var (
	clientCodec = numbers("ranges", func(x *keyed.Client) []*uint64 { return []*uint64{&x.From, &x.To, &x.At, &x.Word} })
	blockCodec  = numbers("block", func(x *keyed.Block) []*uint64 { return []*uint64{&x.Client, &x.At} })
	wordCodec   = numbers("bits", func(x *uint64) []*uint64 { return []*uint64{x} })
)

// NewRecent returns a set in m of keys that it forgets. It is never in a slice, where there would be nothing to forget.
func NewRecent[K comparable](m engine.Memory) *keyed.Recent[K] {
	set := keyed.NewRecent[K]()
	one, two := set.Generations()
	for _, t := range []*keyed.Table[K, struct{}]{one, two} {
		m.Add(t.Clear, func(op *engine.Op) engine.State {
			engine.CheckKey[K](op)
			return newTableState(t, Plain[K](op), Nothing(op))
		})
	}
	m.Add(func() { set.SetGenerations(one, two) }, func(*engine.Op) engine.State { return generationState[K]{set, one, two} })
	return set
}

// A generationState saves which of two tables holds the young keys of a set.
type generationState[K comparable] struct {
	set      *keyed.Recent[K]
	one, two *keyed.Table[K, struct{}]
}

func (s generationState[K]) Kind() string { return "generation" }

func (s generationState[K]) Save(dst []byte, _ codec.Codec) ([]byte, error) {
	young, _ := s.set.Generations()
	return append(dst, codec.Flag(young == s.two)), nil
}

func (s generationState[K]) Load(d *codec.Decoder, _ codec.Codec) {
	if d.Byte() == 1 {
		s.set.SetGenerations(s.two, s.one)
	} else {
		s.set.SetGenerations(s.one, s.two)
	}
}

func (s generationState[K]) Describe(w *codec.Describer) {
	young, old := s.set.Generations()
	w.Entry("%d young, %d old", young.Len(), old.Len())
}

func (s generationState[K]) Size() (int, uint64) { return 0, uint64(unsafe.Sizeof(*s.set)) }
