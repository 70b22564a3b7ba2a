// Package queue passes values from any number of goroutines to one: see [Queue].
package queue

import (
	"context"
	"io"
	"sync"
)

// A Queue passes values from any number of goroutines to one, in order. It is unbounded, so that pushing never waits. The number
// of calls, or [Queue.TryPush], bounds what it holds.
type Queue[T any] struct {
	mu     sync.Mutex
	items  []T
	closed bool
	ready  chan struct{} // holds a token when there is a value or the queue was closed
}

// New returns an empty queue.
func New[T any]() *Queue[T] { return &Queue[T]{ready: make(chan struct{}, 1)} }

// Push appends a value. It drops the value if the queue is closed.
func (q *Queue[T]) Push(v T) { q.TryPush(v, 0) }

// TryPush appends a value unless the queue is closed or limit values are waiting. Zero means no limit. It reports whether it
// appended the value.
func (q *Queue[T]) TryPush(v T, limit int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || limit > 0 && len(q.items) >= limit {
		return false
	}
	q.items = append(q.items, v)
	q.signal()
	return true
}

// Close lets Next return io.EOF once the queue is empty.
func (q *Queue[T]) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.signal()
}

func (q *Queue[T]) signal() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// Next waits for a value. It returns io.EOF if the queue is closed and empty.
func (q *Queue[T]) Next(ctx context.Context) (v T, err error) {
	for {
		q.mu.Lock()
		if len(q.items) > 0 {
			v = q.items[0]
			var zero T
			q.items[0] = zero // so that a queued prompt is not kept longer than needed
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
