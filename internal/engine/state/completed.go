package state

import (
	"fmt"
	"unsafe"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// Keys are a set of keys that an operator is done with, or that were accepted. With a key comes its
// hash.
type Keys[K comparable] interface {
	Has(k K, h uint64) bool
	Put(k K, h uint64) (added bool)
	Add(k K, h uint64) // a key that it has not
	Touch(hs []uint64) // fetches what keys with these hashes need
}

// A Sequence makes a set of keys that clients count.
type Sequence[K comparable] struct {
	Make  func(engine.Memory) Keys[K]
	Check func(K) error // says why a key cannot be counted, or nil
}

// Countable says why a key cannot be counted: number panics. It returns nil if it can.
func Countable[K, C comparable](number func(K) (C, uint64), k K) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("the function that counts it panics: %v", v)
		}
	}()
	number(k)
	return nil
}

// NewSequence returns in m the numbers of keys.
func NewSequence[C comparable](m engine.Memory) *keyed.Sequence[C] {
	set := keyed.NewSequence[C]()
	clients, words := set.Tables()
	m.Add(set.Clear, func(op *engine.Op) engine.State {
		op.States = append(op.States, newTableState(clients, Plain[C](op), clientForm))
		return newTableState(words, blockForm, wordForm)
	})
	return set
}

// The forms of what a set of numbers is made of.
var (
	clientForm = numbers("ranges", func(x *keyed.Client) []*uint64 { return []*uint64{&x.From, &x.To, &x.At, &x.Word} })
	blockForm  = numbers("block", func(x *keyed.Block) []*uint64 { return []*uint64{&x.Client, &x.At} })
	wordForm   = numbers("bits", func(x *uint64) []*uint64 { return []*uint64{x} })
)

// NewRecent returns in m a set of keys that forgets them. It is never in a slice, where
// nothing would be left to forget.
func NewRecent[K comparable](m engine.Memory) *keyed.Recent[K] {
	set := keyed.NewRecent[K]()
	one, two := set.Generations()
	for _, t := range []*keyed.Table[K, struct{}]{one, two} {
		m.Add(t.Clear, func(op *engine.Op) engine.State { return newTableState(t, Plain[K](op), Nothing(op)) })
	}
	m.Add(func() { set.SetGenerations(one, two) }, func(*engine.Op) engine.State { return generationState[K]{set, one, two} })
	return set
}

// A generationState saves which of two tables has the young keys of a set.
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
