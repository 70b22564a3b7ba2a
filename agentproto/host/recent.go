package host

import "time"

// forgetAfter is how long what is remembered by use is remembered at least, if there is not much of it.
const forgetAfter = 10 * time.Minute

// maxRecent is how much of one kind is remembered at least.
const maxRecent = 1 << 15

// recent remembers values by keys that were used lately: those of the last ten minutes at least, or the
// last 32,768. The zero value is empty. It is guarded by its user's lock.
type recent[K comparable, V any] struct {
	young, old map[K]*V
	since      time.Time // the oldest of the young ones may be as old
}

// get returns the value of a key, which is the zero value at first.
func (r *recent[K, V]) get(key K, now time.Time) *V {
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
func (r *recent[K, V]) age(now time.Time) {
	switch late := now.Sub(r.since); {
	case r.young == nil, late >= 2*forgetAfter:
		r.young, r.old, r.since = map[K]*V{}, nil, now
	case late >= forgetAfter, len(r.young) >= maxRecent:
		r.young, r.old, r.since = map[K]*V{}, r.young, now
	}
}

// len returns how much is remembered.
func (r *recent[K, V]) len() int { return len(r.young) + len(r.old) }
