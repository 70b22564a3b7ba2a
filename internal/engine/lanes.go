package engine

import "github.com/millrace/millrace/internal/digest"

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
	if in.unordered != nil {
		return in.unordered.heads(len(in.buf), in.node.part, func(i int) uint64 { return digest.Of(in.buf[i]) })
	}
	return []head{{0, 0}}
}

// width returns how many lanes there are so far.
func (in *Inlet[T]) width() int {
	if in.unordered != nil {
		return in.unordered.n
	}
	return 1
}

// heads returns the first record of each key that has one: keys have no order
// between them. A key's lane is the order in which it was first accepted.
func (in *KInlet[K, V]) heads() []head {
	if in.lanes == nil {
		in.lanes = make(map[K]int)
	}
	if in.unordered != nil {
		return in.unordered.heads(len(in.buf.k), in.node.part, func(i int) uint64 { return chain(uint64(in.lane(in.buf.k[i])), digest.Of(in.buf.v[i])) })
	}
	var all []head
	seen := make(map[int]bool)
	for i, k := range in.buf.k {
		n := in.lane(k)
		if !seen[n] {
			seen[n] = true
			all = append(all, head{n, i})
		}
	}
	sortHeads(all)
	return all
}

// lane returns the number of a key.
func (in *KInlet[K, V]) lane(k K) int {
	n, ok := in.lanes[k]
	if !ok {
		n = len(in.lanes)
		in.lanes[k] = n
	}
	return n
}

func sortHeads(hs []head) {
	for i := range hs {
		for j := i; j > 0 && hs[j].lane < hs[j-1].lane; j-- {
			hs[j], hs[j-1] = hs[j-1], hs[j]
		}
	}
}

// width returns how many lanes there are so far.
func (in *KInlet[K, V]) width() int {
	if in.unordered != nil {
		return in.unordered.n
	}
	return len(in.lanes)
}
