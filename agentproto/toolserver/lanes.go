package toolserver

import (
	"context"
	"net/url"
	"sync"
)

// lanes bound how many attempts are under way to each runtime, so that one that
// hangs holds only messages of its own.
type lanes struct {
	mu  sync.Mutex
	all map[string]*lane
}

type lane struct {
	slots chan struct{}
	users int
}

// laneSlots is how many attempts to one origin may be under way.
const laneSlots = 64

// enter waits for a slot of the runtime at u.
func (l *lanes) enter(ctx context.Context, u *url.URL) (leave func(), err error) {
	name := origin(u)
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
