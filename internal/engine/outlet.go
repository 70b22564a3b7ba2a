package engine

import (
	"context"
	"io"
	"sync"

	"github.com/millrace/millrace/internal/keyed"
)

// An outlet is an output as the loop sees it.
type outlet interface {
	release()      // what the step gave becomes visible; called by the token's holder
	end(err error) // nothing will come; err is nil if the flow ended by itself
}

// An Outlet is an output of a plain stream. Elements wait in it until they are
// read. A site whose output is over its bound does not run until a reader has
// brought it down to half, so nothing is lost and memory is bounded by the bound
// and what one step gives.
type Outlet[T any] struct {
	site  *Site
	op    *Op
	bound int
	step  []T    // given in this step; held by the token
	first uint64 // of a led graph: the number of buf[0], of all elements ever

	// of a remote graph, guarded by mu
	fed     map[int]uint64 // by source: the number of the element to come
	marks   []mark         // of what is in buf
	handled []mark         // read, but nobody was told so

	mu      sync.Mutex
	buf     []T
	off     int // buf[:off] has been read
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
	out := &Outlet[T]{site: n.site, op: op, bound: n.site.g.set.Buffer}
	n.site.outlets = append(n.site.outlets, out)
	n.site.takers[op.index], n.site.feeds[op.index] = out, out
	op.keeps(unreadState[T]{out, plain[T](op)})
	n.To(func(batch []T) {
		if len(out.step) == 0 {
			out.site.dirty = append(out.site.dirty, out)
		}
		out.step = append(out.step, batch...)
	})
	return out
}

func (out *Outlet[T]) release() {
	out.mu.Lock()
	if out.off > len(out.buf)/2 { // make room at the front rather than grow for ever
		n := copy(out.buf, out.buf[out.off:])
		clear(out.buf[n:])
		out.buf, out.off = out.buf[:n], 0
	}
	if len(out.buf) == 0 { // swap instead of copying
		out.buf, out.step = out.step, out.buf
	} else {
		out.buf = append(out.buf, out.step...)
	}
	if !out.site.g.driven() && !out.stalled && len(out.buf)-out.off > out.bound {
		out.stalled = true
		out.site.stalled.Add(1)
	}
	out.readers.signal()
	out.mu.Unlock()
	clear(out.step)
	out.step = out.step[:0]
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
	if r := out.site.g.remote(); r != nil {
		out.acknowledge(r)
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

// A KOutlet is an output of a keyed singleton whose values never change. It keeps
// every entry until it is taken.
type KOutlet[K comparable, V any] struct {
	site *Site
	op   *Op
	hash *keyed.Hasher[K]
	step columns[K, V] // given in this step; held by the token

	mu      sync.Mutex
	entries *keyed.Table[K, V]
	waiting map[K]*waiterChain
	spare   []*waiterChain // empty ones, so that waiting allocates nothing
	ended   bool
	err     error
}

// NewKOutlet lets the entries of n out.
func NewKOutlet[K comparable, V any](n *KNode[K, V], op *Op) *KOutlet[K, V] {
	if n.region != nil && n.region.name != "" {
		Misuse(op.Name, "the collection is inside %s: emit it first", n.region)
	}
	out := &KOutlet[K, V]{site: n.site, op: op, hash: keyed.HasherOf[K](), entries: keyed.NewTable[K, V](), waiting: make(map[K]*waiterChain)}
	n.site.outlets = append(n.site.outlets, out)
	n.site.takers[op.index], n.site.feeds[op.index] = out, out
	keepsTable(op, out.entries)
	var hs []uint64
	n.To(func(b *Batch[K, V]) {
		if len(out.step.k) == 0 {
			out.site.dirty = append(out.site.dirty, out)
		}
		h := b.hashes(out.hash, &hs)
		if len(b.K) == 1 { // the answer to a single request, without three calls to copy it
			out.step.k = append(out.step.k, b.K[0])
			out.step.v = append(out.step.v, b.V[0])
			out.step.h = append(out.step.h, h[0])
			return
		}
		out.step.k = append(out.step.k, b.K...)
		out.step.v = append(out.step.v, b.V...)
		out.step.h = append(out.step.h, h...)
	})
	return out
}

func (out *KOutlet[K, V]) release() {
	out.mu.Lock()
	for i, k := range out.step.k {
		if v, added := out.entries.Put(k, out.step.h[i]); added {
			*v = out.step.v[i]
		}
	}
	if len(out.waiting) > 0 {
		for _, k := range out.step.k {
			if c := out.waiting[k]; c != nil {
				c.signal()
			}
		}
	}
	out.mu.Unlock()
	clear(out.step.k)
	clear(out.step.v)
	out.step = columns[K, V]{out.step.k[:0], out.step.v[:0], out.step.h[:0]}
}

func (out *KOutlet[K, V]) end(err error) {
	out.mu.Lock()
	out.ended, out.err = true, err
	for _, c := range out.waiting {
		c.signal()
	}
	out.mu.Unlock()
}

// Get returns the value of k if it is there.
func (out *KOutlet[K, V]) Get(k K) (v V, ok bool) {
	h := out.hash.Hash(k)
	out.mu.Lock()
	defer out.mu.Unlock()
	if p := out.entries.Get(k, h); p != nil {
		return *p, true
	}
	return v, false
}

// Len returns the number of entries kept.
func (out *KOutlet[K, V]) Len() int {
	out.mu.Lock()
	defer out.mu.Unlock()
	return out.entries.Len()
}

// Await returns the value of k as soon as there is one; if take, the entry is
// forgotten then. It returns io.EOF if the flow ended and k never appeared, and the
// flow's error if it failed.
func (out *KOutlet[K, V]) Await(ctx context.Context, k K, take bool) (v V, err error) {
	r := out.site.g.remote()
	if v, err = out.await(ctx, k, take, r); err == nil && take && r != nil {
		err = out.takenRemote(ctx, r, k)
	}
	return v, err
}

func (out *KOutlet[K, V]) await(ctx context.Context, k K, take bool, r Remote) (v V, err error) {
	h := out.hash.Hash(k)
	out.mu.Lock()
	if p := out.entries.Get(k, h); p != nil {
		return out.found(p, k, h, take), nil
	}
	if r != nil {
		out.mu.Unlock()
		done, err := out.wantRemote(r, k)
		if err != nil {
			return v, err
		}
		defer done()
		out.mu.Lock()
	}
	w := out.site.g.idle.get()
	out.site.enlist(w)
	for {
		if p := out.entries.Get(k, h); p != nil {
			v, err = out.found(p, k, h, take), nil
			break
		}
		if err == nil && out.ended {
			if err = out.err; err == nil {
				err = io.EOF
			}
		}
		if err != nil {
			out.mu.Unlock()
			break
		}
		c := out.waiting[k]
		if c == nil {
			c = out.chain()
			out.waiting[k] = c
		}
		c.add(w)
		out.mu.Unlock()
		err = out.site.pause(ctx, w)
		out.mu.Lock()
		if c.remove(w); len(c.all) == 0 && out.waiting[k] == c {
			delete(out.waiting, k)
			out.spare = append(out.spare, c)
		}
	}
	out.site.leave(w)
	out.site.g.idle.put(w)
	return v, err
}

// chain returns an empty chain, with mu held.
func (out *KOutlet[K, V]) chain() *waiterChain {
	n := len(out.spare) - 1
	if n < 0 {
		return new(waiterChain)
	}
	c := out.spare[n]
	out.spare = out.spare[:n]
	return c
}

// found is called with mu held and unlocks it.
func (out *KOutlet[K, V]) found(p *V, k K, h uint64, take bool) V {
	v := *p
	if take {
		out.entries.Delete(k, h)
	}
	out.mu.Unlock()
	return v
}
