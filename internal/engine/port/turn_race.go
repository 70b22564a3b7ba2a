//go:build race

package port

import (
	"runtime"
	"sync"
)

// counted reports whether sends are counted by key.
const counted = true

// turns counts the sends of each key.
type turns[K comparable] struct {
	of sync.Map // K to *uint64
}

// begin counts a send of k. The lookup of the counter is hidden from the race detector, because it would order two senders that
// nothing else orders.
func (t *turns[K]) begin(k K) {
	runtime.RaceDisable()
	n, ok := t.of.Load(k)
	if !ok {
		n, _ = t.of.LoadOrStore(k, new(uint64))
	}
	runtime.RaceEnable()
	*n.(*uint64)++
}
