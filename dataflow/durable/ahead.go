package durable

import (
	"context"
	"sync"
)

// An ahead is what the owner of a partition has read and no step has taken. It reads as much as
// senders may be ahead, so that it knows how far they are.
type ahead struct {
	most Lag // it reads no further with more than that
	step int // bytes of records that a step takes, about

	mu    sync.Mutex
	ms    []message
	size  Lag
	ready chan struct{} // of capacity 1: there is something
	room  chan struct{} // of capacity 1: there is less
}

func newAhead(most Lag, step int) *ahead {
	return &ahead{most: most, step: step, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put adds messages, and returns when there is room for more. It reports false if ctx ends.
func (a *ahead) put(ctx context.Context, ms []message, size Lag) bool {
	a.mu.Lock()
	a.ms, a.size = append(a.ms, ms...), a.size.plus(size)
	full := a.size.over(a.most)
	a.mu.Unlock()
	signal(a.ready)
	for full {
		select {
		case <-a.room:
		case <-ctx.Done():
			return false
		}
		a.mu.Lock()
		full = a.size.over(a.most)
		a.mu.Unlock()
	}
	return true
}

// take returns the messages of a step: the first one, and others as long as they are no more
// than a step takes. It returns none if there is none.
func (a *ahead) take() (ms []message) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, size := 0, Lag{}
	for n < len(a.ms) && (n == 0 || size.Bytes < a.step) {
		size = size.plus(lagOf(a.ms[n].records))
		n++
	}
	ms, a.ms, a.size = a.ms[:n:n], a.ms[n:], a.size.minus(size)
	if len(a.ms) > 0 {
		signal(a.ready)
	} else {
		a.ms = nil
	}
	signal(a.room)
	return ms
}

// besides returns the messages of a step that a timer causes: what has been read is there before
// the timer fires. It returns none if ready, which says when something is taken, is nil.
func (a *ahead) besides(ready chan struct{}) []message {
	if ready == nil {
		return nil
	}
	return a.take()
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
