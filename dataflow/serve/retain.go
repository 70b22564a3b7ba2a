package serve

import (
	"context"
	"time"
)

// settle notes the answer of a call, and keeps it if a repeat may come.
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

// forget makes a call unknown. An id that a client chose stays used.
func (d *desk) forget(c *call) {
	if c.named {
		d.known[c.id] = nil
	} else {
		delete(d.known, c.id)
	}
}

// abandon remembers that a call has no waiters, so that somebody looks after its
// answer.
func (d *desk) abandon(c *call, now time.Time) {
	c.since = now
	if !c.stray {
		c.stray = true
		d.astray++
		d.strays.push(c)
	}
}

// tidy does what is due. The cost is that of a few table probes.
func (d *desk) tidy(now time.Time) {
	d.expire(now)
	for range min(2, d.strays.len()) {
		d.visit(d.strays.pop(), now)
	}
}

// expire forgets answers that are too old or too many.
func (d *desk) expire(now time.Time) {
	for d.kept.len() > 0 && (d.kept.len() > d.opts.Answers || now.Sub(d.kept.first().since) >= d.opts.Retain) {
		d.forget(d.kept.pop())
	}
}

// visit looks whether a call without waiters was answered, and takes its answer then.
// A call that was not answered for long is not known any more and does not count as
// pending; but it is still visited, because an answer that nobody takes is kept.
func (d *desk) visit(c *call, now time.Time) {
	if c.answered || c.waiters > 0 { // somebody came back to it
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

// found notes that a call is in strays no more.
func (d *desk) found(c *call) {
	c.stray = false
	if !c.lost {
		d.astray--
	}
}

// A queue is a list that is taken from in the order in which it was added to.
type queue[T any] struct {
	all []T
	off int // all[:off] was taken
}

func (q *queue[T]) len() int { return len(q.all) - q.off }

func (q *queue[T]) first() T { return q.all[q.off] }

func (q *queue[T]) push(x T) {
	if q.off > len(q.all)/2 && len(q.all) == cap(q.all) { // make room at the front rather than grow for ever
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
