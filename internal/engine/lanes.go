package engine

import "fmt"

// A head is the first record of a lane of an inlet.
type head struct {
	lane int // of this inlet
	at   int // index in what was accepted
}

// heads returns the first record of each lane that has one, in order of lanes.
func (in *Inlet[T]) heads() []head {
	if len(in.buf) == 0 {
		return nil
	}
	return []head{{0, 0}}
}

// width returns how many lanes there are so far.
func (in *Inlet[T]) width() int { return 1 }

// takeAt pushes the record at index i.
func (in *Inlet[T]) takeAt(i int) {
	x := in.buf[i]
	in.buf = append(in.buf[:i], in.buf[i+1:]...)
	s := in.site
	s.forget()
	s.note(func() string { return fmt.Sprintf("take %v from %s", x, in.op) })
	in.node.one(x)
}

// heads returns the first record of each key that has one: keys have no order
// between them. A key's lane is the order in which it was first accepted.
func (in *KInlet[K, V]) heads() []head {
	if in.lanes == nil {
		in.lanes = make(map[K]int)
	}
	var all []head
	seen := make(map[int]bool)
	for i, k := range in.buf.k {
		n, ok := in.lanes[k]
		if !ok {
			n = len(in.lanes)
			in.lanes[k] = n
		}
		if !seen[n] {
			seen[n] = true
			all = append(all, head{n, i})
		}
	}
	sortHeads(all)
	return all
}

func sortHeads(hs []head) {
	for i := range hs {
		for j := i; j > 0 && hs[j].lane < hs[j-1].lane; j-- {
			hs[j], hs[j-1] = hs[j-1], hs[j]
		}
	}
}

// width returns how many lanes there are so far.
func (in *KInlet[K, V]) width() int { return len(in.lanes) }

// takeAt pushes the record at index i.
func (in *KInlet[K, V]) takeAt(i int) {
	k, v := in.buf.k[i], in.buf.v[i]
	in.buf.k = append(in.buf.k[:i], in.buf.k[i+1:]...)
	in.buf.v = append(in.buf.v[:i], in.buf.v[i+1:]...)
	var h uint64
	if in.hashed {
		h = in.buf.h[i]
		in.buf.h = append(in.buf.h[:i], in.buf.h[i+1:]...)
	}
	s := in.site
	s.forget()
	s.note(func() string { return fmt.Sprintf("take %v:%v from %s", k, v, in.op) })
	in.oneK[0], in.oneV[0], in.oneH[0] = k, v, h
	in.batch = Batch[K, V]{K: in.oneK[:], V: in.oneV[:]}
	if in.hashed {
		in.batch.H = in.oneH[:]
	}
	in.node.push(&in.batch)
}

// forget notes that a record has left the queue of a driven site.
func (s *Site) forget() { s.queued-- }
