package cow

import "iter"

// A View is a map that never changes. Any number of goroutines may use it at
// the same time. The zero view is empty.
type View[K comparable, V any] struct {
	view *view[K, V]
}

type view[K comparable, V any] struct {
	trees trees[K, V]
	hash  func(K) uint64
	check func(K) (K, error)
}

// Len returns the number of entries.
func (v View[K, V]) Len() int {
	if v.view == nil {
		return 0
	}
	return v.view.trees.len()
}

// Get returns the value of k, if there is one. There is none if k cannot be a
// key.
func (v View[K, V]) Get(k K) (value V, ok bool) {
	if v.view == nil {
		return value, false
	}
	t := &v.view.trees
	if t.sorted != nil {
		e, ok := t.sorted.Get(entry[K, V]{k: k})
		return e.v, ok
	}
	if v.view.check != nil {
		if _, err := v.view.check(k); err != nil {
			return value, false
		}
	}
	e, ok := t.find(k, v.view.hash(k))
	if !ok {
		return value, false
	}
	return e.v, true
}

// All returns the entries in the order of the keys if keys have an order, and
// otherwise in the order in which they were first set.
func (v View[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if v.view == nil {
			return
		}
		t := &v.view.trees
		if t.sorted != nil {
			t.sorted.Ascend(func(e entry[K, V]) bool { return yield(e.k, e.v) })
			return
		}
		t.numbered.Ascend(func(e numbered[K, V]) bool { return yield(e.k, e.v) })
	}
}
