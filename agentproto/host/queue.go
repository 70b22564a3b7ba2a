package host

import (
	"context"
	"io"
	"sync"
)

// A queue hands values from any number of goroutines to one, in order. It is
// unbounded, so that pushing never waits: what goes through it is bounded by the
// number of calls, or by tryPush.
type queue[T any] struct {
	mu     sync.Mutex
	items  []T
	closed bool
	ready  chan struct{} // holds a token while there is something to see
}

func newQueue[T any]() *queue[T] { return &queue[T]{ready: make(chan struct{}, 1)} }

// push appends a value. It is dropped if the queue is closed.
func (q *queue[T]) push(v T) { q.tryPush(v, 0) }

// tryPush appends a value unless limit values are waiting. Zero is no limit.
func (q *queue[T]) tryPush(v T, limit int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || limit > 0 && len(q.items) >= limit {
		return false
	}
	q.items = append(q.items, v)
	q.signal()
	return true
}

// close lets next return io.EOF once the queue is empty.
func (q *queue[T]) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

func (q *queue[T]) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// next waits for a value.
func (q *queue[T]) next(ctx context.Context) (v T, err error) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			v = q.items[0]
			var zero T
			q.items[0] = zero // a queued prompt is not kept longer than needed
			q.items = q.items[1:]
			q.mu.Unlock()
			return v, nil
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return v, io.EOF
		}
		select {
		case <-q.ready:
		case <-ctx.Done():
			return v, context.Cause(ctx)
		}
	}
}
