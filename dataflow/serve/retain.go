package serve

import (
	"context"
	"time"
)

// settle stores the answer of a call, and keeps it if a repeat may come.
func (d *desk) settle(c *call, answer Response, now time.Time) {
	c.answered, c.answer = true, answer
	if c.lost || c.contents != nil {
		return
	}
	if !c.told {
		d.forget(c)
		return
	}
	c.since = now
	d.kept.push(c)
	d.expire(now)
}

// forget drops a call. An id that a client chose stays used.
func (d *desk) forget(c *call) {
	if c.named {
		d.known[c.id] = nil
	} else {
		delete(d.known, c.id)
	}
}

// abandon adds a call without waiters to strays, so that its answer is taken out later.
func (d *desk) abandon(c *call, now time.Time) {
	c.since = now
	if !c.stray {
		c.stray = true
		d.astray++
		d.strays.push(c)
	}
}

// tidy does the work that is due. The cost is that of a few table probes.
func (d *desk) tidy(now time.Time) {
	d.expire(now)
	for range min(2, d.strays.len()) {
		d.visit(d.strays.pop(), now)
	}
}

// expire forgets the answers that are too old or exceed the limit.
func (d *desk) expire(now time.Time) {
	for d.kept.len() > 0 && (d.kept.len() > d.opts.Answers || now.Sub(d.kept.first().since) >= d.opts.Retain) {
		d.forget(d.kept.pop())
	}
}

// visit takes the answer of a call without waiters, if it has come. A call that was not
// answered for Options.Retain is dropped from known and no longer counts as pending. But
// it stays in strays, because the output keeps an answer until it is taken.
func (d *desk) visit(c *call, now time.Time) {
	if c.answered || c.waiters > 0 { // a repeat has come
		d.found(c)
		return
	}
	if _, ok := c.out.Get(c.id); ok {
		if answer, err := c.out.Take(context.Background(), c.id); err == nil {
			d.found(c)
			d.settle(c, answer, now)
			return
		}
	}
	if !c.lost && now.Sub(c.since) >= d.opts.Retain {
		c.lost = true
		d.astray--
		d.forget(c)
	}
	d.strays.push(c)
}

// found marks a call as no longer in strays.
func (d *desk) found(c *call) {
	c.stray = false
	if !c.lost {
		d.astray--
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
