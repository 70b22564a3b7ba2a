package intake

import (
	"context"
	"sync"
)

// Lanes bound how many attempts are under way to each runtime, so that one that
// hangs holds only messages of its own.
type Lanes struct {
	mu  sync.Mutex
	all map[string]*lane
}

type lane struct {
	slots chan struct{}
	users int
}

// laneSlots is how many attempts to one origin may be under way.
const laneSlots = 64

// Enter waits for a slot of a runtime, by its origin.
func (l *Lanes) Enter(ctx context.Context, name string) (leave func(), err error) {
	l.mu.Lock()
	if l.all == nil {
		l.all = make(map[string]*lane)
	}
	a := l.all[name]
	if a == nil {
		a = &lane{slots: make(chan struct{}, laneSlots)}
		l.all[name] = a
	}
	a.users++
	l.mu.Unlock()
	gone := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.users--; a.users == 0 {
			delete(l.all, name)
		}
	}
	select {
	case a.slots <- struct{}{}:
		return func() { <-a.slots; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, context.Cause(ctx)
	}
}
