package engine

import "encoding/binary"

// keep makes what is remembered of completed keys part of what is saved of op.
func (m *numbered[K, C]) keep(op *Op) { op.keeps(sequenceState[K, C]{m, plain[C](op)}) }

func (m *retained[K]) keep(op *Op) {
	young, old := m.set.Generations()
	op.keeps(tableState[K, struct{}]{young, plain[K](op), nothing()})
	op.keeps(tableState[K, struct{}]{old, plain[K](op), nothing()})
	keepsVar(op, &m.at)
}

// A sequenceState saves the numbers of completed keys.
type sequenceState[K, C comparable] struct {
	m      *numbered[K, C]
	client form[C]
}

func (s sequenceState[K, C]) kind() string { return "numbers(" + s.client.kind + ")" }

func (s sequenceState[K, C]) save(dst []byte, c Codec) (_ []byte, err error) {
	var clients, words []byte
	var n, m uint64
	s.m.set.Parts(func(client C, kept [4]uint64) {
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

func (s sequenceState[K, C]) load(d *decoder, c Codec) {
	s.m.set.Clear()
	for range d.count() {
		var client C
		s.client.load(d, c, &client)
		kept := [4]uint64{d.uint(), d.uint(), d.uint(), d.uint()}
		if d.err == nil {
			s.m.set.PutClient(client, kept)
		}
	}
	for range d.count() {
		if word := [3]uint64{d.uint(), d.uint(), d.uint()}; d.err == nil {
			s.m.set.PutWord(word)
		}
	}
}

func (s sequenceState[K, C]) describe(w *describer) {
	s.m.set.Parts(func(client C, kept [4]uint64) {
		w.entry("%v: numbers %d to %d", client, kept[0]*64, kept[1]*64)
	}, func([3]uint64) {})
}
