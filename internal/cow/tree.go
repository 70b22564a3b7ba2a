package cow

import "github.com/google/btree"

// degree is the degree of the trees: a node holds up to 63 entries.
const degree = 32

// An entry is a key and its value.
type entry[K comparable, V any] struct {
	v V
	k K
}

// A numbered is an entry with the number that it got when it was first set.
type numbered[K comparable, V any] struct {
	n uint64
	entry[K, V]
}

// A place is a number of a key with the given hash.
type place struct {
	hash, n uint64
}

// trees are either sorted, or both numbered and places.
type trees[K comparable, V any] struct {
	sorted   *btree.BTreeG[entry[K, V]]
	numbered *btree.BTreeG[numbered[K, V]]
	places   *btree.BTreeG[place]
}

func newTrees[K comparable, V any]() trees[K, V] {
	if less := lessOf[K](); less != nil {
		return trees[K, V]{sorted: btree.NewG(degree, func(a, b entry[K, V]) bool { return less(a.k, b.k) })}
	}
	return trees[K, V]{
		numbered: btree.NewG(degree, func(a, b numbered[K, V]) bool { return a.n < b.n }),
		places: btree.NewG(degree, func(a, b place) bool {
			return a.hash < b.hash || a.hash == b.hash && a.n < b.n
		}),
	}
}

// clone returns a copy that shares all nodes. A write to one of the two copies
// the nodes first.
func (t *trees[K, V]) clone() trees[K, V] {
	if t.sorted != nil {
		return trees[K, V]{sorted: t.sorted.Clone()}
	}
	return trees[K, V]{numbered: t.numbered.Clone(), places: t.places.Clone()}
}

// find returns the numbered entry of k, whose hash is h.
func (t *trees[K, V]) find(k K, h uint64) (e numbered[K, V], ok bool) {
	t.places.AscendGreaterOrEqual(place{hash: h}, func(p place) bool {
		if p.hash != h {
			return false
		}
		e, ok = t.numbered.Get(numbered[K, V]{n: p.n})
		ok = ok && e.k == k
		return !ok
	})
	return e, ok
}

func (t *trees[K, V]) len() int {
	if t.sorted != nil {
		return t.sorted.Len()
	}
	return t.numbered.Len()
}
