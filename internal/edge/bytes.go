package edge

import (
	"container/list"
	"context"
	"sync"
)

// Bytes is an amount of memory that requests share, for example for the bodies that are being read. A
// reservation that exceeds it waits, first come first served. Its methods may be used concurrently.
type Bytes struct {
	mu      sync.Mutex
	size    int64
	free    int64
	waiting list.List // of *claim
	whole   *Bytes    // the amount of which this is a share, or nil
}

// Used returns how many bytes are reserved.
func (b *Bytes) Used() int64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.size - b.free
}

// A claim is a reservation that waits.
type claim struct {
	n     int64
	ready chan struct{} // closed when it has its bytes
}

// NewBytes returns an amount of n bytes.
func NewBytes(n int64) *Bytes { return &Bytes{size: n, free: n} }

// Share returns an amount of n bytes that also count against b. It limits what one peer may use, so
// that one peer cannot use up what all peers need.
func (b *Bytes) Share(n int64) *Bytes { return &Bytes{size: n, free: n, whole: b} }

// A Lease is what one request has reserved. It may be used by one goroutine at a time.
type Lease struct {
	of   *Bytes
	held int64
}

// Reserve waits for n bytes. If n exceeds the whole amount, the request gets the whole amount to
// itself. The caller must call [Lease.Release]. The error is the cause of ctx.
func (b *Bytes) Reserve(ctx context.Context, n int64) (*Lease, error) {
	l := &Lease{of: b}
	if err := l.Grow(ctx, n); err != nil {
		return nil, err
	}
	return l, nil
}

// Grow waits for n more bytes. If it fails, the lease is unchanged.
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

// Release returns all bytes of the lease.
func (l *Lease) Release() {
	n := l.held
	l.held = 0
	if l.of.whole != nil {
		l.of.whole.give(n)
	}
	l.of.give(n)
}

// take takes n bytes after all earlier claims have theirs.
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
	case <-c.ready: // granted at the same moment
		b.free += n
	default:
		b.waiting.Remove(place)
	}
	b.serve() // a smaller claim may have waited behind it
	return context.Cause(ctx)
}

// give returns n bytes.
func (b *Bytes) give(n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.free += n
	b.serve()
}

// serve grants waiting claims, in order.
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
