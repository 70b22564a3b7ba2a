package engine

import (
	"encoding/binary"

	"github.com/millrace/millrace/internal/keyed"
)

// newSequence returns in m the numbers of completed keys.
func newSequence[C comparable](m memory) *keyed.Sequence[C] {
	set := keyed.NewSequence[C]()
	m.add(set.Clear, func(op *Op) state { return sequenceState[C]{set, plain[C](op)} })
	return set
}

// newRecent returns in m a set of keys that forgets them. It is never in a slice, where
// nothing would be left to forget.
func newRecent[K comparable](m memory) *keyed.Recent[K] {
	set := keyed.NewRecent[K]()
	for _, t := range generations(set) {
		m.add(func() { (*t).Clear() }, func(op *Op) state { return tableState[K, struct{}]{t, plain[K](op), nothing(op)} })
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
	client form[C]
}

func (s sequenceState[C]) kind() string { return "numbers(" + s.client.kind + ")" }

func (s sequenceState[C]) save(dst []byte, c Codec) (_ []byte, err error) {
	var clients, words []byte
	var n, m uint64
	s.set.Parts(func(client C, kept [4]uint64) {
		if err == nil {
			n++
			clients, err = s.client.save(clients, c, &client)
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

func (s sequenceState[C]) load(d *decoder, c Codec) {
	s.set.Clear()
	for range d.count() {
		var client C
		s.client.load(d, c, &client)
		kept := [4]uint64{d.uint(), d.uint(), d.uint(), d.uint()}
		if d.err == nil {
			s.set.PutClient(client, kept)
		}
	}
	for range d.count() {
		if word := [3]uint64{d.uint(), d.uint(), d.uint()}; d.err == nil {
			s.set.PutWord(word)
		}
	}
}

func (s sequenceState[C]) describe(w *describer) {
	s.set.Parts(func(client C, kept [4]uint64) {
		w.entry("%v: numbers %d to %d", client, kept[0]*64, kept[1]*64)
	}, func([3]uint64) {})
}
