package engine

import (
	"context"
	"sync"
	"sync/atomic"
)

// A waiter is a goroutine that waits for something a site will do, for room or for
// a result, and that runs the site's loop itself when it is handed the token: a
// goroutine that would be woken anyway is the cheapest one to go on with.
type waiter struct {
	wake       chan struct{} // of capacity 1; a signal says "look again"
	lead       bool          // holds the token of the site; guarded by the site's mu
	next, prev *waiter       // in the site's list, guarded by the site's mu
	listed     bool
}

// waiterPool keeps waiters for reuse. Each graph has its own, since a channel made in
// a testing/synctest bubble must not leave it.
type waiterPool struct{ pool sync.Pool }

func (p *waiterPool) get() *waiter {
	if w, ok := p.pool.Get().(*waiter); ok {
		return w
	}
	return &waiter{wake: make(chan struct{}, 1)}
}

// put takes w back. The caller has made sure that nobody else knows it.
func (p *waiterPool) put(w *waiter) {
	select {
	case <-w.wake:
	default:
	}
	p.pool.Put(w)
}

func (w *waiter) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// A waiterList is a queue of waiters, oldest first.
type waiterList struct {
	first, last *waiter
	n           atomic.Int32
}

func (l *waiterList) add(w *waiter) {
	l.n.Add(1)
	w.listed, w.prev, w.next = true, l.last, nil
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

func (l *waiterList) remove(w *waiter) {
	if !w.listed {
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
	l.n.Add(-1)
	w.listed, w.prev, w.next = false, nil, nil
}

func (l *waiterList) pop() *waiter {
	w := l.first
	if w != nil {
		l.remove(w)
	}
	return w
}

func (l *waiterList) wakeAll() {
	for w := l.first; w != nil; w = w.next {
		w.signal()
	}
}

// pause waits until w is signalled or ctx ends, and leads the site's loop for a
// batch whenever it is asked to.
func (s *Site) pause(ctx context.Context, w *waiter) error {
	if err := s.g.driver.wait(ctx, s, w); err != nil {
		return err
	}
	s.leads(w)
	return nil
}

func (w *waiter) wait(ctx context.Context) error {
	ends := ctx.Done()
	if ends == nil { // one channel is half the work of two
		<-w.wake
		return nil
	}
	select {
	case <-w.wake:
		return nil
	case <-ends:
		return context.Cause(ctx)
	}
}

// leads leads the site's loop for a batch if w was handed the token.
func (s *Site) leads(w *waiter) {
	s.mu.Lock()
	if !w.lead {
		s.mu.Unlock()
		return
	}
	w.lead = false
	s.waiters.add(w)
	s.g.driver.settle(s, 1)
}

// enough is how many waiters are known to a site before those that need not be are no
// longer made so: some, so that one is there who can be handed the token, and no more,
// since it costs the site's lock.
const enough = 4

// wanting says whether the site has few waiters to hand the token to.
func (s *Site) wanting() bool { return s.waiters.n.Load() < enough }

// enlist makes w known to the site.
func (s *Site) enlist(w *waiter) {
	s.mu.Lock()
	s.waiters.add(w)
	s.mu.Unlock()
}

// leave forgets w; if w was handed the token in the meantime it passes it on.
func (s *Site) leave(w *waiter) {
	s.mu.Lock()
	s.waiters.remove(w)
	if w.lead {
		w.lead = false
		s.g.driver.settle(s, 1)
		return
	}
	s.mu.Unlock()
}
