package callback

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/millrace/millrace/agentproto/host/internal/capability"
	"github.com/millrace/millrace/agentproto/host/internal/peer"
	"github.com/millrace/millrace/agentproto/host/internal/quota"
	"github.com/millrace/millrace/internal/edge"
)

// maxBodies is how many message bodies of one tool server are read at once.
const maxBodies = 32

// bodyStep is the step by which the memory for a body of unknown length grows.
const bodyStep = 64 << 10

// readers limits the message bodies of one tool server.
type readers struct {
	bodies chan struct{} // one slot for each callback that is being read or handled
	excess chan struct{} // the same, for callbacks that exceed their bounds
	memory *edge.Bytes
}

// newReaders returns the readers of each tool server, which may use each bytes of all.
func newReaders(servers []*peer.Server, all *edge.Bytes, each int64) map[capability.ServerID]*readers {
	of := make(map[capability.ServerID]*readers, len(servers))
	for _, s := range servers {
		of[s.ID] = &readers{make(chan struct{}, maxBodies), make(chan struct{}, MaxExcess), all.Share(each)}
	}
	return of
}

// enter registers a message that is about to be read, and waits until there is room for it. It reports false if there is none in
// time. A tool server that sends slowly or much takes room only from its own messages.
func (p *posted) enter() (leave func(), ok bool) {
	var undo []func()
	leave = func() {
		for _, f := range undo {
			f()
		}
	}
	thread, now := p.capability.Key.GroupID, time.Now()
	most := p.e.Sizes.Most()
	length := min(max(0, p.r.ContentLength), most)
	if p.over = p.e.Accounts.Charge(p.capability, length, now); p.over == 0 {
		p.paid = length + quota.Overhead
		if p.e.Accounts.Enter(thread) {
			undo = append(undo, func() { p.e.Accounts.Leave(thread) })
		} else {
			p.e.Accounts.Refund(p.capability, p.paid, now)
			p.paid, p.over = 0, time.Second
		}
	}
	ctx, cancel := context.WithTimeoutCause(p.r.Context(), p.e.Accept, errBusy)
	defer cancel()
	readers := p.e.readers[p.server.ID]
	place := readers.bodies
	if p.over > 0 {
		// Whether the message must not be lost is known only after reading it. Few such messages are read at a time, so that
		// those of one tool server cost the others little.
		place = readers.excess
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
		length = 0 // the body is not kept
	}
	lease, err := readers.memory.Reserve(ctx, length)
	if err != nil {
		leave()
		p.over = max(p.over, time.Second)
		return nil, false
	}
	p.memory = lease
	undo = append(undo, lease.Release)
	return leave, true
}

// errBusy is the reason why a message waits no longer.
var errBusy = errors.New("host: the callback endpoint is busy")

// read returns the body. If the body is too large or incomplete, read answers the request and reports false.
func (p *posted) read() ([]byte, bool) {
	limit := p.e.Sizes.Most()
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
		p.paid = 0           // only what arrived was read
		p.later(time.Second) // the connection broke; the tool may still have the message
		return nil, false
	}
	p.wasRead()
	return data, true
}

// A growing is a body of unknown length. It reserves memory as it is read.
type growing struct {
	io.Reader
	p    *posted
	room int
}

// Read waits for memory before it reads.
func (g *growing) Read(b []byte) (int, error) {
	if g.room == 0 {
		ctx, cancel := context.WithTimeoutCause(g.p.r.Context(), g.p.e.Accept, errBusy)
		defer cancel()
		if err := g.p.memory.Grow(ctx, bodyStep); err != nil {
			return 0, err
		}
		g.room = bodyStep
	}
	n, err := g.Reader.Read(b[:min(len(b), g.room)])
	g.room -= n
	g.p.e.Accounts.Owe(g.p.capability, int64(n), time.Now())
	return n, err
}
