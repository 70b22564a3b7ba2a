package state

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/keyed"
)

// NewSequence returns in m the numbers of completed keys.
func NewSequence[C comparable](m engine.Memory) *keyed.Sequence[C] {
	set := keyed.NewSequence[C]()
	m.Add(set.Clear, func(op *engine.Op) engine.State { return sequenceState[C]{set, Plain[C](op)} })
	return set
}

// NewRecent returns in m a set of keys that forgets them. It is never in a slice, where
// nothing would be left to forget.
func NewRecent[K comparable](m engine.Memory) *keyed.Recent[K] {
	set := keyed.NewRecent[K]()
	for _, t := range generations(set) {
		m.Add(func() { (*t).Clear() }, func(op *engine.Op) engine.State { return tableState[K, struct{}]{t, Plain[K](op), Nothing(op)} })
	}
	return set
}

// generations returns the young and the old keys of a set.
func generations[K comparable](set *keyed.Recent[K]) [2]**keyed.Table[K, struct{}] {
	young, old := set.Generations()
	return [2]**keyed.Table[K, struct{}]{young, old}
}

// A sequenceState saves the numbers of completed keys.
type sequenceState[C comparable] struct {
	set    *keyed.Sequence[C]
	client codec.Of[C]
}

func (s sequenceState[C]) Kind() string { return "numbers(" + s.client.Kind + ")" }

func (s sequenceState[C]) Save(dst []byte, c codec.Codec) (_ []byte, err error) {
	var clients, words []byte
	var n, m uint64
	s.set.Parts(func(client C, kept [4]uint64) {
		if err == nil {
			n++
			clients, err = s.client.Save(clients, c, &client)
			for _, x := range kept {
				clients = binary.AppendUvarint(clients, x)
			}
		}
	}, func(word [3]uint64) {
		m++
		for _, x := range word {
			words = binary.AppendUvarint(words, x)
		}
	})
	dst = append(binary.AppendUvarint(dst, n), clients...)
	return append(binary.AppendUvarint(dst, m), words...), err
}

func (s sequenceState[C]) Load(d *codec.Decoder, c codec.Codec) {
	s.set.Clear()
	for range d.Count() {
		var client C
		s.client.Load(d, c, &client)
		kept := [4]uint64{d.Uint(), d.Uint(), d.Uint(), d.Uint()}
		if d.Err == nil {
			s.set.PutClient(client, kept)
		}
	}
	for range d.Count() {
		if word := [3]uint64{d.Uint(), d.Uint(), d.Uint()}; d.Err == nil {
			s.set.PutWord(word)
		}
	}
}

func (s sequenceState[C]) Describe(w *codec.Describer) {
	s.set.Parts(func(client C, kept [4]uint64) {
		w.Entry("%v: numbers %d to %d", client, kept[0]*64, kept[1]*64)
	}, func([3]uint64) {})
}
