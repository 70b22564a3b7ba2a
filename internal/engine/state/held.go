package state

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
)

// held are the slots of held timers, sorted. A held timer is set, and does not fire. It is saved with [engine.NoDeadline].
type held []uint32

// farAway is the next deadline if all timers are held: a location does not end before them.
const farAway = engine.Never

func (s held) has(i uint32) bool {
	_, has := slices.BinarySearch(s, i)
	return has
}

func (s *held) add(i uint32) {
	if at, has := slices.BinarySearch(*s, i); !has {
		*s = slices.Insert(*s, at, i)
	}
}

func (s *held) remove(i uint32) {
	if at, has := slices.BinarySearch(*s, i); has {
		*s = slices.Delete(*s, at, at+1)
	}
}

// Len returns how many timers are set, including held ones.
func (p *Pending[K, V]) Len() int { return p.Idx.Len() + len(p.held) }

// Next returns the earliest deadline, if a timer is set.
func (p *Pending[K, V]) Next() (at int64, ok bool) {
	if at, ok = p.Idx.Next(); !ok && len(p.held) > 0 {
		return farAway, true
	}
	return at, ok
}

// at returns when the timer of a slot is due. The slot is not free.
func (p *Pending[K, V]) at(slot uint32) int64 {
	if p.held.has(slot) {
		return engine.NoDeadline
	}
	return p.Idx.At(slot)
}

// Hold holds the timer of a slot. It reports false if that is not the timer of k that is due at the given time. It takes time
// linear in the number of free slots.
func (p *Pending[K, V]) Hold(slot uint32, k K, at int64) bool {
	if int(slot) >= len(p.k) || p.k[slot] != k || slices.Contains(p.free, slot) || p.at(slot) != at || at == engine.NoDeadline {
		return false
	}
	if p.marks != nil {
		p.marks.Change(slot)
	}
	p.Idx.Cancel(slot)
	p.held.add(slot)
	return true
}

// Held returns the slot of a held timer of k. It takes time linear in the number of held timers.
func (p *Pending[K, V]) Held(k K) (slot uint32, ok bool) {
	i := slices.IndexFunc(p.held, func(slot uint32) bool { return p.k[slot] == k })
	if i < 0 {
		return 0, false
	}
	return p.held[i], true
}

// Release sets the held timer of a slot again.
func (p *Pending[K, V]) Release(slot uint32, at int64) {
	if p.marks != nil {
		p.marks.Change(slot)
		p.order.set(slot)
	}
	p.held.remove(slot)
	p.Idx.Add(slot, at)
}
