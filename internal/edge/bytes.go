package edge

import (
	"container/list"
	"context"
	"sync"
)

// Bytes is an amount of memory that requests share, such as for the bodies that are being read. What
// is reserved beyond it waits, first come first served. Its methods may be used concurrently.
type Bytes struct {
	mu      sync.Mutex
	size    int64
	free    int64
	waiting list.List // of *claim
	whole   *Bytes    // of which it is a share, or nil
}

// Used returns how many bytes are reserved.
func (b *Bytes) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size - b.free
}

// A claim waits for its bytes.
type claim struct {
	n     int64
	ready chan struct{} // closed when it has them
}

// NewBytes returns an amount of n bytes.
func NewBytes(n int64) *Bytes { return &Bytes{size: n, free: n} }

// Share returns an amount of n bytes of which each is one of b, too: what one peer may use up, so that
// it cannot use up what all peers need.
func (b *Bytes) Share(n int64) *Bytes { return &Bytes{size: n, free: n, whole: b} }

// A Lease is what one request has reserved. It is used by one goroutine at a time.
type Lease struct {
	of   *Bytes
	held int64
}

// Reserve waits for n bytes. More than there are at all are as many as there are, so that one request
// has all of them to itself. The caller calls [Lease.Release]. The error is the cause of ctx.
func (b *Bytes) Reserve(ctx context.Context, n int64) (*Lease, error) {
	l := &Lease{of: b}
	if err := l.Grow(ctx, n); err != nil {
		return nil, err
	}
	return l, nil
}

// Grow waits for n bytes more. If it fails, the lease has what it had.
func (l *Lease) Grow(ctx context.Context, n int64) error {
	n = min(n, l.of.size-l.held)
	if whole := l.of.whole; whole != nil {
		n = min(n, whole.size-l.held)
	}
	if n <= 0 {
		return nil
	}
	if err := l.of.take(ctx, n); err != nil {
		return err
	}
	if whole := l.of.whole; whole != nil {
		if err := whole.take(ctx, n); err != nil {
			l.of.give(n)
			return err
		}
	}
	l.held += n
	return nil
}

// Release gives back all that the lease has.
func (l *Lease) Release() {
	n := l.held
	l.held = 0
	if l.of.whole != nil {
		l.of.whole.give(n)
	}
	l.of.give(n)
}

// take takes n bytes when those that came before have theirs.
func (b *Bytes) take(ctx context.Context, n int64) error {
	b.mu.Lock()
	if b.waiting.Len() == 0 && b.free >= n {
		b.free -= n
		b.mu.Unlock()
		return nil
	}
	c := &claim{n, make(chan struct{})}
	place := b.waiting.PushBack(c)
	b.mu.Unlock()
	select {
	case <-c.ready:
		return nil
	case <-ctx.Done():
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case <-c.ready: // in the same moment
		b.free += n
	default:
		b.waiting.Remove(place)
	}
	b.serve() // a smaller one may have waited behind it
	return context.Cause(ctx)
}

// give gives n bytes back.
func (b *Bytes) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	b.serve()
}

// serve gives those who wait their bytes, in order.
func (b *Bytes) serve() {
	for {
		first := b.waiting.Front()
		if first == nil || first.Value.(*claim).n > b.free {
			return
		}
		c := b.waiting.Remove(first).(*claim)
		b.free -= c.n
		close(c.ready)
	}
}
