package connect

import (
	"context"
	"sync"
)

// A queue passes elements from one goroutine to another, up to a bound.
type queue[T any] struct {
	most int
	more chan struct{} // of capacity 1: there is something to take, or there never will be
	room chan struct{} // of capacity 1: there may be room

	mu     sync.Mutex
	all    []queued[T]
	size   int
	closed bool
}

type queued[T any] struct {
	x    T
	size int
}

func newQueue[T any](most int) *queue[T] {
	return &queue[T]{most: most, more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// put adds an element with a size. While the queue holds most or more, it waits. If
// ctx ends first, it adds nothing.
func (q *queue[T]) put(ctx context.Context, x T, size int) {
	for {
		q.mu.Lock()
		if q.size < q.most {
			q.all = append(q.all, queued[T]{x, size})
			q.size += size
			q.mu.Unlock()
			signal(q.more)
			return
		}
		q.mu.Unlock()
		select {
		case <-q.room:
		case <-ctx.Done():
			return
		}
	}
}

// take waits for the next element. It returns false if none will come.
func (q *queue[T]) take() (x T, ok bool) {
	for {
		q.mu.Lock()
		if len(q.all) > 0 {
			defer q.mu.Unlock()
			return q.first(), true
		}
		closed := q.closed
		q.mu.Unlock()
		if closed {
			return x, false
		}
		<-q.more
	}
}

// takeIf takes the next element if there is one and it is wanted.
func (q *queue[T]) takeIf(wanted func(T) bool) (x T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.all) == 0 || !wanted(q.all[0].x) {
		return x, false
	}
	return q.first(), true
}

// first takes the next element. The caller holds q.mu.
func (q *queue[T]) first() T {
	first := q.all[0]
	q.all[0] = queued[T]{}
	q.all = q.all[1:]
	q.size -= first.size
	signal(q.room)
	return first.x
}

// close says that no more elements will be put.
func (q *queue[T]) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	signal(q.more)
}

func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
