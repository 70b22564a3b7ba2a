package toolserver

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto"
)

// post posts a message behind the ones that the call has posted before. Why it
// could not be is received by m.lost.
func (c *call) post(m *message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.postable(); err != nil {
		m.lost <- err
	} else if err := c.put(m, nil); err != nil {
		c.server.log.Error("message is not in the store", "message", m.kind, "tool", c.inv.Operation, "error", err)
		m.lost <- err
	}
}

// postable returns why nothing may be posted, if so. c.mu is held.
func (c *call) postable() error {
	switch {
	case c.suspended:
		return ErrClosing
	case c.phase == finished:
		return ErrCancelled
	case c.phase == resolved || c.ended:
		return errEnded
	}
	return nil
}

// put keeps a message, with a change of what else is kept, and queues it. c.mu is
// held.
func (c *call) put(m *message, change func(tx) error) error {
	c.number++
	m.number, m.posted = c.number, time.Now()
	if err := c.keepMessage(m, change); err != nil {
		return err
	}
	c.enqueue(m)
	return nil
}

// enqueue hands a message to the goroutine that delivers. c.mu is held.
func (c *call) enqueue(m *message) {
	c.queue = append(c.queue, m)
	if !c.posting {
		c.posting = true
		go c.deliver()
	}
}

// maxQueue is how many messages of one call may wait for their delivery before a
// function that posts one more has to wait.
const maxQueue = 1000

// room waits until the queue of the call has room for one more. It returns the
// cause of ctx if that ends before.
func (c *call) room(ctx context.Context) error {
	for {
		c.mu.Lock()
		if len(c.queue) < maxQueue || c.postable() != nil {
			c.mu.Unlock()
			return nil
		}
		if c.space == nil {
			c.space = make(chan struct{})
		}
		space := c.space
		c.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// deliver delivers the messages of the call, one after the other. One that is cut off
// because the call goes on elsewhere, in the next process or at another instance, stays in
// the store, and so do those behind it.
func (c *call) deliver() {
	for cutOff := !c.turn(); ; {
		c.mu.Lock()
		if cutOff || len(c.queue) == 0 || c.server.ctx.Err() != nil || c.moving {
			c.posting = false
			ended := c.ended
			c.mu.Unlock()
			if ended {
				c.server.remove(c)
			}
			return
		}
		m, to := c.queue[0], c.address
		c.mu.Unlock()
		if m.to != nil && m.to != to { // it has not been tried there
			m.failed, m.notBefore = 0, time.Time{}
		}
		m.to = to

		err := context.Cause(m.ctx)
		if err == nil {
			ctx, stop := context.WithCancelCause(m.ctx)
			unlink := context.AfterFunc(to.replaced, func() { stop(errReaddressed) })
			err = c.server.send(ctx, c, to, m)
			unlink()
			stop(nil)
		}
		if cutOff = errors.Is(err, ErrClosing); !cutOff && c.server.ctx.Err() == nil {
			c.settle(m, to, err)
		}
	}
}

// settle removes a message that was delivered or will not be. The call ends here,
// for the store, if that was its last, or if the runtime has no use for the rest.
//
// If the call has another address by now, a message that was not delivered stays, and so does
// the result: they are sent there.
func (c *call) settle(m *message, to *address, err error) {
	s := c.server
	c.mu.Lock()
	if c.address != to && m.ctx.Err() == nil && (err != nil || m.kind == agentproto.TypeToolResult) {
		c.mu.Unlock()
		return
	}
	if m.kind == agentproto.TypeToolResult {
		c.settled.Do(func() { close(c.answered) })
	}
	i := slices.Index(c.queue, m)
	c.queue = slices.Delete(c.queue, i, i+1)
	if c.space != nil {
		close(c.space)
		c.space = nil
	}
	if c.phase != finished {
		last := c.phase == resolved && len(c.queue) == 0
		if err := c.dropMessage(m, last); err != nil {
			s.log.Error("message stays in the store and will be sent again", "message", m.kind, "webhook-id", m.id, "error", err)
		}
		if last {
			c.phase = finished
		}
	}
	c.mu.Unlock()
	if err != nil {
		if m.ctx.Err() == nil {
			s.log.Warn("message not delivered", "message", m.kind, "webhook-id", m.id,
				"tool", c.inv.Operation, "callback", origin(to.url), "error", err)
		}
		m.lost <- err
	}
	switch {
	case errors.Is(err, errGone):
		c.abandon(true)
	case err != nil && m.kind == agentproto.TypeToolResult:
		c.abandon(false) // a runtime that does not know of a subscription drops its events
	}
}

// send tries to deliver a message until it is accepted, refused, not wanted any
// more, or the horizon is reached.
func (s *Server) send(ctx context.Context, c *call, to *address, m *message) error {
	end := m.posted.Add(s.opts.CallbackHorizon)
	if err := sleep(ctx, time.Until(m.notBefore)); err != nil {
		return err
	}
	for {
		after, err := s.attempt(ctx, c, to, m)
		if err == nil || errors.Is(err, errRefused) || errors.Is(err, errGone) {
			return err
		}
		m.failed++
		wait := waitAfter(m.failed)
		if after > wait {
			wait = after
			c.postpone(m, wait)
		}
		if time.Now().Add(wait).After(end) {
			return fmt.Errorf("%w: last: %w", errExpired, err)
		}
		s.log.Debug("message will be sent again", "message", m.kind, "webhook-id", m.id,
			"callback", origin(to.url), "attempt", m.failed, "wait", wait, "error", err)
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// postpone keeps when the runtime wants the next attempt, which a restart must not
// make too early.
func (c *call) postpone(m *message, wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.phase == finished {
		return
	}
	m.notBefore = time.Now().Add(wait)
	data, err := m.record()
	if err == nil {
		err = c.server.store.update(func(tx tx) error { return tx.put(outboxBucket, c.messageKey(m), data) })
	}
	if err != nil && c.server.ctx.Err() == nil {
		c.server.log.Warn("Retry-After is not in the store", "webhook-id", m.id, "error", err)
	}
}

// sleep waits for d, or returns the cause of ctx.
func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return context.Cause(ctx)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// lanes bound how many attempts are under way to each runtime, so that one that
// hangs holds only messages of its own.
type lanes struct {
	mu  sync.Mutex
	all map[string]*lane
}

type lane struct {
	slots chan struct{}
	users int
}

// laneSlots is how many attempts to one origin may be under way.
const laneSlots = 64

// enter waits for a slot of the runtime at u.
func (l *lanes) enter(ctx context.Context, u *url.URL) (leave func(), err error) {
	name := origin(u)
	l.mu.Lock()
	if l.all == nil {
		l.all = make(map[string]*lane)
	}
	a := l.all[name]
	if a == nil {
		a = &lane{slots: make(chan struct{}, laneSlots)}
		l.all[name] = a
	}
	a.users++
	l.mu.Unlock()
	gone := func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if a.users--; a.users == 0 {
			delete(l.all, name)
		}
	}
	select {
	case a.slots <- struct{}{}:
		return func() { <-a.slots; gone() }, nil
	case <-ctx.Done():
		gone()
		return nil, context.Cause(ctx)
	}
}
