package membership

import (
	"hash/fnv"
)

// Owners returns the owner of each partition among members, by rendezvous hashing. Candidates are the members
// that do not refuse the partition, else those that refuse only the state it was in, else all. The candidate
// with the greatest weight for the partition owns it. The result does not depend on the order of members;
// without members it is nil.
//
// A member that refuses a partition moves only that one. A member that comes or goes moves only what it gets or
// had, 1/n on average. The number of partitions of each of n members varies randomly, by about the square root
// of its share.
//
// The weight of a member for partition p is the (p+1)-th number of the generator SplitMix64 seeded with the
// 64-bit FNV-1a hash of its ID; of equal weights, the one of the smaller ID wins. All versions of the library
// that work together must agree on it.
//
// Source: Thaler and Ravishankar, Using name-based mappings to increase hit rates, 1998;
// Steele, Lea and Flood, Fast splittable pseudorandom number generators, 2014.
func Owners(partitions int, members []string, refuses map[string]*Refusals) []string {
	if len(members) == 0 {
		return nil
	}
	owners := make([]string, partitions)
	weights := make([]uint64, partitions)
	ranks := make([]int, partitions)
	for i, id := range members {
		h := fnv.New64a()
		h.Write([]byte(id))
		seed := h.Sum64()
		refused := refuses[id]
		for p := range owners {
			seed += 0x9e3779b97f4a7c15
			w := mix(seed)
			rank := 0
			if refused != nil {
				rank = refused.rank(p)
			}
			if i == 0 || rank < ranks[p] || rank == ranks[p] && (w > weights[p] || w == weights[p] && id < owners[p]) {
				owners[p], weights[p], ranks[p] = id, w, rank
			}
		}
	}
	return owners
}

// mix is the output function of SplitMix64.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
