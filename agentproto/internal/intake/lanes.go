package intake

import (
	"context"
	"sync"
)

// Lanes limit how many attempts are in progress to each runtime, so that a runtime that hangs
// delays only its own messages.
type Lanes struct {
	mu  sync.Mutex
	all map[string]*lane
}

type lane struct {
	slots chan struct{}
	users int
}

// laneSlots is how many attempts to one runtime may be in progress.
const laneSlots = 64

// Enter waits for a slot of a runtime, which is named by its origin. The caller must call leave.
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
