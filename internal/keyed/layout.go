package keyed

// Layout returns how entries are numbered: how many numbers were given out, and those
// that are free again, the next one to be taken last.
func (t *Table[K, V]) Layout() (next uint32, free []uint32) { return t.next, t.free }

// Fill gives an empty table the entries and the numbering of another one. It calls
// entry for each number in use, in order, with the place for the value.
func (t *Table[K, V]) Fill(next uint32, free []uint32, h *Hasher[K], entry func(place func(K) *V)) {
	unused := make(map[uint32]bool, len(free))
	for _, i := range free {
		unused[i] = true
	}
	for i := range next {
		if unused[i] {
			t.take()
			continue
		}
		entry(func(k K) *V {
			v, _ := t.Put(k, h.Hash(k))
			return v
		})
	}
	for _, i := range free {
		t.drop(i)
	}
}

// Parts calls client for each client with what is kept of it, in the order of their
// numbers, then words for the words of single blocks: number of the client, block, bits.
func (s *Sequence[C]) Parts(client func(c C, kept [4]uint64), words func(word [3]uint64)) {
	for c, p := range s.clients.All() {
		client(c, [4]uint64{p.from, p.to, p.at, p.word})
	}
	for b, bits := range s.words.All() {
		words([3]uint64{b.client, b.at, *bits})
	}
}

// PutClient gives an empty or new part of a set what [Sequence.Parts] said of a client.
// Clients are put in the same order.
func (s *Sequence[C]) PutClient(c C, kept [4]uint64) {
	p, _ := s.clients.Put(c, s.hash.Hash(c))
	*p = client{kept[0], kept[1], kept[2], kept[3]}
}

// PutWord gives the set what Parts said of a block.
func (s *Sequence[C]) PutWord(word [3]uint64) { s.store(word[0], word[1], word[2]) }

// Generations returns the tables of the set: its keys by age.
func (r *Recent[K]) Generations() (young, old **Table[K, struct{}]) { return &r.young, &r.old }
