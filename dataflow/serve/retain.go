package serve

import (
	"context"
	"time"
)

// settle stores the answer of a call, and keeps it if a repeat may come.
func (t *requestTable) settle(c *call, answer Response, now time.Time) {
	c.answered, c.answer = true, answer
	if c.expired || c.contents != nil {
		return
	}
	if !c.idKnown {
		t.forget(c)
		return
	}
	c.since = now
	t.retained.push(c)
	t.expire(now)
}

// forget drops a call. An id that a client chose stays used.
func (t *requestTable) forget(c *call) {
	if c.named {
		t.known[c.id] = nil
	} else {
		delete(t.known, c.id)
	}
}

// abandon adds a call without waiters to abandoned, so that its answer is taken out later.
func (t *requestTable) abandon(c *call, now time.Time) {
	c.since = now
	if !c.abandoned {
		c.abandoned = true
		t.abandonedPending++
		t.abandoned.push(c)
	}
}

// tidy does the work that is due. The cost is that of a few table probes.
func (t *requestTable) tidy(now time.Time) {
	t.expire(now)
	for range min(2, t.abandoned.len()) {
		t.visit(t.abandoned.pop(), now)
	}
}

// expire forgets the answers that are too old or exceed the limit.
func (t *requestTable) expire(now time.Time) {
	for t.retained.len() > 0 && (t.retained.len() > t.opts.Answers || now.Sub(t.retained.first().since) >= t.opts.Retain) {
		t.forget(t.retained.pop())
	}
}

// visit takes the answer of a call without waiters, if it has come. A call that was not
// answered for Options.Retain is dropped from known and no longer counts as pending. But
// it stays in abandoned, because the output keeps an answer until it is taken.
func (t *requestTable) visit(c *call, now time.Time) {
	if c.answered || c.waiters > 0 { // a repeat has come
		t.unabandon(c)
		return
	}
	if _, ok := c.out.Get(c.id); ok {
		if answer, err := c.out.Take(context.Background(), c.id); err == nil {
			t.unabandon(c)
			t.settle(c, answer, now)
			return
		}
	}
	if !c.expired && now.Sub(c.since) >= t.opts.Retain {
		c.expired = true
		t.abandonedPending--
		t.forget(c)
	}
	t.abandoned.push(c)
}

// unabandon marks a call as no longer in abandoned.
func (t *requestTable) unabandon(c *call) {
	c.abandoned = false
	if !c.expired {
		t.abandonedPending--
	}
}

// A queue is a first-in, first-out list.
type queue[T any] struct {
	all []T
	off int // all[:off] was popped
}

func (q *queue[T]) len() int { return len(q.all) - q.off }

func (q *queue[T]) first() T { return q.all[q.off] }

func (q *queue[T]) push(x T) {
	if q.off > len(q.all)/2 && len(q.all) == cap(q.all) { // reuse the space at the front instead of growing forever
		n := copy(q.all, q.all[q.off:])
		clear(q.all[n:])
		q.all, q.off = q.all[:n], 0
	}
	q.all = append(q.all, x)
}

func (q *queue[T]) pop() T {
	var zero T
	x := q.all[q.off]
	q.all[q.off] = zero
	q.off++
	return x
}
