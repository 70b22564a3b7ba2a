package token

import (
	"context"
	"sync"
	"sync/atomic"
)

// A WaiterChain is the short list of goroutines that wait at one output, guarded by the output's mu. Each waiter adds and removes
// itself.
type WaiterChain struct{ all []*Waiter }

// Add adds w.
func (c *WaiterChain) Add(w *Waiter) { c.all = append(c.all, w) }

// Remove removes w.
func (c *WaiterChain) Remove(w *Waiter) {
	for i, x := range c.all {
		if x == w {
			c.all = append(c.all[:i], c.all[i+1:]...)
			return
		}
	}
}

// Signal signals all waiters.
func (c *WaiterChain) Signal() {
	for _, w := range c.all {
		w.Signal()
	}
}

// A Waiter is a goroutine that waits for something a location will do, for room or for a result. If it is handed the token, it
// runs the location's loop itself: a goroutine that would be woken anyway is the cheapest one to continue with.
type Waiter struct {
	Wake       chan struct{} // of capacity 1; a signal says "look again"
	HasToken   bool          // holds the token of the location; guarded by the location's mu
	next, prev *Waiter       // in the location's list, guarded by the location's mu
	Listed     bool
}

// WaiterPool keeps waiters for reuse. Each graph has its own, since a channel made in
// a testing/synctest bubble must not leave it.
type WaiterPool struct{ pool sync.Pool }

// Get returns a waiter to which nothing else refers.
func (p *WaiterPool) Get() *Waiter {
	if w, ok := p.pool.Get().(*Waiter); ok {
		return w
	}
	return &Waiter{Wake: make(chan struct{}, 1)}
}

// Put takes w back. The caller has made sure that nothing else refers to it.
func (p *WaiterPool) Put(w *Waiter) {
	select {
	case <-w.Wake:
	default:
	}
	p.pool.Put(w)
}

// Signal tells w to look again. It never blocks.
func (w *Waiter) Signal() {
	select {
	case w.Wake <- struct{}{}:
	default:
	}
}

// A WaiterList is a queue of waiters, oldest first.
type WaiterList struct {
	first, last *Waiter
	N           atomic.Int32
}

// Add adds w as the youngest waiter.
func (l *WaiterList) Add(w *Waiter) {
	l.N.Add(1)
	w.Listed, w.prev, w.next = true, l.last, nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

// Remove removes w if it is listed.
func (l *WaiterList) Remove(w *Waiter) {
	if !w.Listed {
		return
	}
	if w.prev == nil {
		l.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		l.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	l.N.Add(-1)
	w.Listed, w.prev, w.next = false, nil, nil
}

// Pop removes the oldest waiter and returns it, or nil if there is none.
func (l *WaiterList) Pop() *Waiter {
	w := l.first
	if w != nil {
		l.Remove(w)
	}
	return w
}

// WakeAll signals all waiters.
func (l *WaiterList) WakeAll() {
	for w := l.first; w != nil; w = w.next {
		w.Signal()
	}
}

// Wait returns when w is signaled, or with the cause when ctx ends.
func (w *Waiter) Wait(ctx context.Context) error {
	ends := ctx.Done()
	if ends == nil { // receiving from one channel is half the work of two
		<-w.Wake
		return nil
	}
	select {
	case <-w.Wake:
		return nil
	case <-ends:
		return context.Cause(ctx)
	}
}
