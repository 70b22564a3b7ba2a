// Package recent remembers values for a while, in bounded memory: see [Map].
package recent

import "time"

// Least is the minimum time for which an unused value is remembered, unless there are too many values.
const Least = 10 * time.Minute

// Most is how many values are remembered at least.
const Most = 1 << 15

// A Map remembers the values of recently used keys: those used in the last ten minutes, or if there are more, at least the last
// 32,768. The zero value is empty. It is not safe for concurrent use; its user has to lock it.
type Map[K comparable, V any] struct {
	young, old map[K]*V
	since      time.Time // when the young ones began
}

// Get returns a pointer to the value of a key, which is the zero value at first.
func (r *Map[K, V]) Get(key K, now time.Time) *V {
	r.age(now)
	if v := r.young[key]; v != nil {
		return v
	}
	v := r.old[key]
	if v == nil {
		v = new(V)
	}
	delete(r.old, key)
	r.young[key] = v
	return v
}

// age makes the young ones old after a time, or when there are too many.
func (r *Map[K, V]) age(now time.Time) {
	switch late := now.Sub(r.since); {
	case r.young == nil, late >= 2*Least:
		r.young, r.old, r.since = map[K]*V{}, nil, now
	case late >= Least, len(r.young) >= Most:
		r.young, r.old, r.since = map[K]*V{}, r.young, now
	}
}

// Len returns the number of values.
func (r *Map[K, V]) Len() int { return len(r.young) + len(r.old) }
