package durable

import (
	"context"
	"sync"
)

// An ahead is the messages that the owner of a partition has read and no step has taken. The owner reads as far
// ahead as senders may be, so that it knows how far they are.
type ahead struct {
	most Lag // with more than this, it stops reading
	step int // about how many bytes of records a step takes

	mu    sync.Mutex
	ms    []message
	size  Lag
	ready chan struct{} // of capacity 1: there are messages
	room  chan struct{} // of capacity 1: there are fewer messages
}

func newAhead(most Lag, step int) *ahead {
	return &ahead{most: most, step: step, ready: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put adds messages, and returns when there is space for more. It returns false if ctx ends first.
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

// take returns the messages of a step: the first one, and more until a step has its bytes. It returns none if
// there is none.
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

// besides returns the messages of a step that a timer causes: messages that were read take effect before the
// timer fires. It returns none if ready is nil, since then no messages are to be taken.
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
