package host

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"
)

// maxBodies is how many bodies of one tool server's messages are read at once.
const maxBodies = 32

// bodyStep is by how much the memory for a body grows whose length is not known.
const bodyStep = 64 << 10

// enter takes a message into account that is about to be read, and waits until there is room for it. It
// reports false if there is none in time. What one tool server reads slowly, or has much of, takes room
// from its own messages only.
func (p *posted) enter() (leave func(), ok bool) {
	var undo []func()
	leave = func() {
		for _, f := range undo {
			f()
		}
	}
	thread, now := p.capability.key.GroupID, time.Now()
	most := p.rt.opts.Bounds.Sizes.most()
	length := min(max(0, p.r.ContentLength), most)
	if p.over = p.rt.intake.charge(p.capability, length, now); p.over == 0 {
		p.paid = length + overhead
		if p.rt.intake.enter(thread) {
			undo = append(undo, func() { p.rt.intake.leave(thread) })
		} else {
			p.rt.intake.refund(p.capability, p.paid, now)
			p.paid, p.over = 0, time.Second
		}
	}
	ctx, cancel := context.WithTimeoutCause(p.r.Context(), p.rt.opts.Timeouts.Accept, errBusy)
	defer cancel()
	place := p.server.bodies
	if p.over > 0 {
		// Whether it must not be lost is known when it is read. Few are read at a time, so that
		// those of one tool server cost the others little.
		place = p.server.excess
	}
	select {
	case place <- struct{}{}:
		free := sync.OnceFunc(func() { <-place })
		undo = append(undo, free)
		if p.over == 0 {
			p.wasRead = free
		}
	case <-ctx.Done():
		leave()
		p.over = max(p.over, time.Second)
		return nil, false
	}
	if p.r.ContentLength > most {
		length = 0 // nothing of it is kept
	}
	lease, err := p.server.memory.Reserve(ctx, length)
	if err != nil {
		leave()
		p.over = max(p.over, time.Second)
		return nil, false
	}
	p.memory = lease
	undo = append(undo, lease.Release)
	return leave, true
}

// errBusy is why a message does not wait any longer.
var errBusy = errors.New("host: the callback endpoint is busy")

// read returns the body. It reports false if that was too large or did not come,
// and has answered then.
func (p *posted) read() ([]byte, bool) {
	limit := p.rt.opts.Bounds.Sizes.most()
	if p.r.ContentLength > limit {
		p.tooLarge(limit, 0)
		return nil, false
	}
	body := io.Reader(http.MaxBytesReader(p.w, p.r.Body, limit))
	if p.r.ContentLength < 0 {
		body = &growing{body, p, 0}
	}
	data, err := io.ReadAll(body)
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		p.tooLarge(limit, limit)
		return nil, false
	}
	if err != nil {
		p.paid = 0           // what came was read
		p.later(time.Second) // it broke off; the tool may have the rest
		return nil, false
	}
	p.wasRead()
	return data, true
}

// A growing is a body of unknown length: it takes memory as it comes, and is paid for.
type growing struct {
	io.Reader
	p    *posted
	room int
}

// Read waits for memory before it reads.
func (g *growing) Read(b []byte) (int, error) {
	if g.room == 0 {
		ctx, cancel := context.WithTimeoutCause(g.p.r.Context(), g.p.rt.opts.Timeouts.Accept, errBusy)
		defer cancel()
		if err := g.p.memory.Grow(ctx, bodyStep); err != nil {
			return 0, err
		}
		g.room = bodyStep
	}
	n, err := g.Reader.Read(b[:min(len(b), g.room)])
	g.room -= n
	g.p.rt.intake.owe(g.p.capability, int64(n), time.Now())
	return n, err
}
