// Package recent remembers values for a while, in bounded memory: see [Map].
package recent

import "time"

// Least is how long what is remembered by use is remembered at least, if there is not much of it.
const Least = 10 * time.Minute

// Most is how much of one kind is remembered at least.
const Most = 1 << 15

// A Map remembers values by keys that were used lately: those of the last ten minutes at least, or the
// last 32,768. The zero value is empty. It is guarded by its user's lock.
type Map[K comparable, V any] struct {
	young, old map[K]*V
	since      time.Time // the oldest of the young ones may be as old
}

// Get returns the value of a key, which is the zero value at first.
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

// age makes the young ones old when it is time, or when there are too many.
func (r *Map[K, V]) age(now time.Time) {
	switch late := now.Sub(r.since); {
	case r.young == nil, late >= 2*Least:
		r.young, r.old, r.since = map[K]*V{}, nil, now
	case late >= Least, len(r.young) >= Most:
		r.young, r.old, r.since = map[K]*V{}, r.young, now
	}
}

// Len returns how much is remembered.
func (r *Map[K, V]) Len() int { return len(r.young) + len(r.old) }
