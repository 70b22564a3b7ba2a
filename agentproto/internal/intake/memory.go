package intake

import (
	"crypto/sha256"
	"time"
)

// A digest represents a key or a secret of any length.
type digest = [sha256.Size]byte

// maxGeneration is how many digests one generation of a memory holds.
const maxGeneration = 1 << 19

// A memory remembers digests for a while. It has two generations: a digest goes into the young one,
// which becomes the old one after the period, or earlier if it is full. So, unless it fills up, a
// digest is remembered for one to two periods, at a cost of one map entry and no timer.
type memory struct {
	period     time.Duration
	young, old map[digest]struct{}
	since      time.Time // when young was started
}

// add remembers d.
func (m *memory) add(d digest) {
	m.turn()
	if m.young == nil {
		m.young = make(map[digest]struct{})
	}
	m.young[d] = struct{}{}
}

// has reports whether d is remembered.
func (m *memory) has(d digest) bool {
	m.turn()
	if _, ok := m.young[d]; ok {
		return true
	}
	_, ok := m.old[d]
	return ok
}

func (m *memory) turn() {
	now := time.Now()
	age := now.Sub(m.since)
	if age < m.period && len(m.young) < maxGeneration {
		return
	}
	m.old, m.young = m.young, nil
	if age >= 2*m.period {
		m.old = nil
	}
	m.since = now
}
