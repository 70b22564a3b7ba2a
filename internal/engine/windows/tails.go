package windows

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// A Tail is what Trailing holds for a key: its latest events, and the aggregate of them. It is exported so that it can be saved.
type Tail[E, A any] struct {
	Events []E
	Old    int // number of events that no longer count
	Acc    A
}

// drop removes the events that no longer count once they are at least half.
func (t *Tail[E, A]) drop() {
	if 2*t.Old < len(t.Events) || t.Old == 0 {
		return
	}
	n := copy(t.Events, t.Events[t.Old:])
	clear(t.Events[n:])
	t.Events, t.Old = t.Events[:n], 0
}

// tails are the tails of all keys, each kept until its last event is too old to count.
type tails[K comparable, E, A any] struct {
	table *keyed.Table[K, Tail[E, A]]
	ends  agenda[K] // one for each key, at or before the time at which it may be forgotten
}

func newTails[K comparable, E, A any](m engine.Memory) *tails[K, E, A] {
	return &tails[K, E, A]{state.NewTable(m, state.Plain[K], state.Plain[Tail[E, A]]), newAgenda[K](m)}
}

// forget removes the keys none of whose events counts for an event that may still come.
func (t *tails[K, E, A]) forget(now, size int64, at func(*E) int64) {
	t.ends.until(now, func(k K, h uint64, _ int64) {
		x := t.table.Get(k, h)
		if end := add(at(&x.Events[len(x.Events)-1]), size); end > now {
			t.ends.add(end, k, h)
			return
		}
		t.table.Delete(k, h)
	})
}
