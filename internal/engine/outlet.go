package engine

import (
	"context"
	"io"
	"sync"
)

// An Outlet is an output of a plain stream. Elements wait in it until they are
// read. A site whose output is over its bound does not run until a reader has
// brought it down to half, so nothing is lost and memory is bounded by the bound
// and what one step gives.
type Outlet[T any] struct {
	noEntries
	noValue
	site  *Site
	op    *Op
	bound int
	step  []T    // given in this step; held by the token
	first uint64 // of a led graph: the number of buf[0], of all elements ever

	// of the ports of a flow that runs elsewhere
	remote  Remote
	fed     map[int]uint64 // by source: the number of the element to come; held by the feeder
	fresh   mark           // of what is in step; held by the feeder
	marks   []mark         // of what is in buf; guarded by mu
	handled []mark         // read, but nobody was told so; guarded by mu

	_       apart
	mu      sync.Mutex
	buf     []T
	off     int    // buf[:off] has been read
	gone    uint64 // how many had been read that are no longer in buf
	stalled bool
	ended   bool
	err     error
	readers waiterChain
}

// NewOutlet lets the elements of n out.
func NewOutlet[T any](n *Node[T], op *Op) *Outlet[T] {
	if n.region != nil && n.region.name != "" {
		Misuse(op.Name, "the collection is inside %s: emit it first", n.region)
	}
	out := &Outlet[T]{site: n.site, op: op, bound: n.site.g.set.Buffer, remote: n.site.g.set.Remote}
	n.site.addOutput(op, out)
	lasting(op).add(nil, func(op *Op) state { return unreadState[T]{out, plain[T](op)} })
	n.To(func(batch []T) {
		if len(out.step) == 0 {
			out.site.ports = append(out.site.ports, out)
		}
		out.step = append(out.step, batch...)
	})
	return out
}

func (out *Outlet[T]) operator() *Op { return out.op }

func (out *Outlet[T]) release() {
	out.give()
	out.show()
}

func (out *Outlet[T]) show() bool {
	out.readers.signal()
	out.mu.Unlock()
	out.forget()
	return false
}

func (out *Outlet[T]) wake() {} // show did it

func (out *Outlet[T]) forget() {
	clear(out.step)
	out.step, out.fresh = out.step[:0], mark{}
}

func (out *Outlet[T]) give() {
	out.mu.Lock()
	if out.fresh.left > 0 {
		out.fed[out.fresh.source] = out.fresh.number
		out.marks = append(out.marks, out.fresh)
	}
	if out.off > len(out.buf)/2 { // make room at the front rather than grow for ever
		n := copy(out.buf, out.buf[out.off:])
		clear(out.buf[n:])
		out.gone += uint64(out.off)
		out.buf, out.off = out.buf[:n], 0
	}
	if len(out.buf) == 0 { // swap instead of copying
		out.buf, out.step = out.step, out.buf
	} else {
		out.buf = append(out.buf, out.step...)
	}
	if !out.stalled && out.site.g.bounded && len(out.buf)-out.off > out.bound {
		out.stalled = true
		out.site.stall()
	}
}

func (out *Outlet[T]) end(err error) {
	out.mu.Lock()
	out.ended, out.err = true, err
	out.readers.signal()
	out.mu.Unlock()
}

// Next returns the next element. It returns io.EOF after the last one, and the
// flow's error once the flow has failed and everything released has been read.
func (out *Outlet[T]) Next(ctx context.Context) (x T, err error) {
	if out.remote != nil {
		out.tell()
	}
	out.mu.Lock()
	if out.off < len(out.buf) {
		return out.pop(), nil
	}
	w := out.site.g.idle.get()
	out.site.enlist(w)
	for {
		if out.off < len(out.buf) {
			x = out.pop()
			break
		}
		if out.ended {
			if err = out.err; err == nil {
				err = io.EOF
			}
			out.mu.Unlock()
			break
		}
		out.readers.add(w)
		out.mu.Unlock()
		err = out.site.pause(ctx, w)
		out.mu.Lock()
		out.readers.remove(w)
		if err != nil && out.off == len(out.buf) {
			out.mu.Unlock()
			err = out.site.starved(err)
			break
		}
		err = nil
	}
	out.site.leave(w)
	out.site.g.idle.put(w)
	return x, err
}

// pop takes the next element. It is called with mu held and unlocks it.
func (out *Outlet[T]) pop() T {
	x := out.buf[out.off]
	var zero T
	out.buf[out.off] = zero
	out.off++
	if len(out.marks) > 0 {
		out.popped()
	}
	if out.off < len(out.buf) {
		out.readers.signal() // for another reader
	}
	resume := out.stalled && len(out.buf)-out.off <= out.bound/2
	if resume {
		out.stalled = false
	}
	out.mu.Unlock()
	if resume {
		out.site.resume()
	}
	return x
}

// A waiterChain is the short list of goroutines that wait at one output, guarded
// by the output's mu. Who adds itself removes itself.
type waiterChain struct{ all []*waiter }

func (c *waiterChain) add(w *waiter) { c.all = append(c.all, w) }

func (c *waiterChain) remove(w *waiter) {
	for i, x := range c.all {
		if x == w {
			c.all = append(c.all[:i], c.all[i+1:]...)
			return
		}
	}
}

func (c *waiterChain) signal() {
	for _, w := range c.all {
		w.signal()
	}
}
