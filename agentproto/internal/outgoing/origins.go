package outgoing

import (
	"context"
	"sync"
)

// An originLimiter limits how many attempts are in progress to each origin, so that a runtime that
// hangs delays only its own messages.
type originLimiter struct {
	mu      sync.Mutex
	origins map[string]*attempts
}

// attempts are those to one origin.
type attempts struct {
	slots chan struct{}
	users int // that have a slot or wait for one
}

// maxAttempts is how many attempts to one origin may be in progress.
const maxAttempts = 64

// acquire waits for a slot of an origin. The caller must call release.
func (l *originLimiter) acquire(ctx context.Context, origin string) (release func(), err error) {
	l.mu.Lock()
	if l.origins == nil {
		l.origins = make(map[string]*attempts)
	}
	a := l.origins[origin]
	if a == nil {
		a = &attempts{slots: make(chan struct{}, maxAttempts)}
		l.origins[origin] = a
	}
	a.users++
	l.mu.Unlock()
	leave := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.users--; a.users == 0 {
			delete(l.origins, origin)
		}
	}
	select {
	case a.slots <- struct{}{}:
		return func() { <-a.slots; leave() }, nil
	case <-ctx.Done():
		leave()
		return nil, context.Cause(ctx)
	}
}
