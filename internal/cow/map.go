package cow

import "github.com/millrace/millrace/internal/keyed"

// A Map maps keys to values. It belongs to one goroutine.
type Map[K comparable, V any] struct {
	trees trees[K, V]
	hash  func(K) uint64
	check func(K) (K, error) // see [keyed.CheckOf]
	next  uint64             // number of the next new key
	view  *view[K, V]        // of the current state, or nil
}

// NewMap returns an empty map.
func NewMap[K comparable, V any]() *Map[K, V] {
	return newMap[K, V](keyed.HasherOf[K]().Hash)
}

func newMap[K comparable, V any](hash func(K) uint64) *Map[K, V] {
	return &Map[K, V]{trees: newTrees[K, V](), hash: hash, check: keyed.CheckOf[K]()}
}

// Len returns the number of entries.
func (m *Map[K, V]) Len() int { return m.trees.len() }

// Get returns the value of k, if there is one.
func (m *Map[K, V]) Get(k K) (v V, ok bool) {
	t := &m.trees
	if t.sorted != nil {
		e, ok := t.sorted.Get(entry[K, V]{k: k})
		return e.v, ok
	}
	e, ok := t.find(k, m.hash(k))
	return e.v, ok
}

// Set sets the value of k to v.
func (m *Map[K, V]) Set(k K, v V) {
	m.view = nil
	t := &m.trees
	if t.sorted != nil {
		t.sorted.ReplaceOrInsert(entry[K, V]{v, k})
		return
	}
	h := m.hash(k)
	e, ok := t.find(k, h)
	if !ok {
		e.n, e.k = m.next, k
		m.next++
		t.places.ReplaceOrInsert(place{h, e.n})
	}
	e.v = v
	t.numbered.ReplaceOrInsert(e)
}

// Delete removes k and reports whether it was in the map.
func (m *Map[K, V]) Delete(k K) bool {
	t := &m.trees
	if t.sorted != nil {
		_, ok := t.sorted.Delete(entry[K, V]{k: k})
		if ok {
			m.view = nil
		}
		return ok
	}
	h := m.hash(k)
	e, ok := t.find(k, h)
	if ok {
		m.view = nil
		t.places.Delete(place{h, e.n})
		t.numbered.Delete(e)
	}
	return ok
}

// View returns the map as it stands. Taking a second view of an unchanged map
// costs nothing.
func (m *Map[K, V]) View() View[K, V] {
	if m.view == nil {
		m.view = &view[K, V]{trees: m.trees.clone(), hash: m.hash, check: m.check}
	}
	return View[K, V]{m.view}
}
