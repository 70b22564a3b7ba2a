package engine

import (
	"context"
	"runtime/debug"
	"sync"

	"github.com/millrace/millrace/internal/keyed"
)

// answers is where the answers of asynchronous calls enter.
type answers[K comparable, V, U any] struct {
	KInlet[K, U]
	to *async[K, V, U]
}

// async is the state of a MapAsync operator: calls that wait for their turn.
type async[K comparable, V, U any] struct {
	inner
	site  *Site
	op    *Op
	f     func(context.Context, V) U
	limit int
	in    *answers[K, V, U]
	step  columns[K, V] // asked for in this step; held by the token

	// of a graph whose history is kept outside; see led_async.go
	pending *keyed.Table[K, V] // calls without an answer; nil elsewhere
	fresh   columns[K, V]      // of these, what the last step asked for

	_       apart
	mu      sync.Mutex
	queue   columns[K, V]
	off     int // queue[:off] has been started
	running int
	coming  bool // one of the running has not looked at the queue yet
	stalled bool
}

// MapAsync returns, for each entry of n, what f returned for it. The calls are made
// outside the loop once the step that asked for them is released, at most limit at
// a time; an answer is a record of the history.
func MapAsync[K comparable, V, U any](n *KNode[K, V], op *Op, f func(context.Context, V) U, limit int) *KNode[K, U] {
	h := Same(op.Name, n)
	if h.region == &h.site.starts {
		h.region = nil // what comes of constants comes later
	}
	if h.region != nil {
		Misuse(op.Name, "nothing changes later inside %s", h.region)
	}
	h.deps, h.loops = nil, nil // an answer is a record, so that what follows is no feedback of a slice into itself
	a := &async[K, V, U]{site: h.site, op: op, f: f, limit: limit}
	a.in = &answers[K, V, U]{KInlet[K, U]{door: door{site: h.site, op: op}, node: NewKNode[K, U](h), hash: hasher[K](), hashed: true}, a}
	h.site.addInput(op, a.in, a.in.node.part)
	h.site.addOutput(op, a)
	if h.site.g.set.Answer != nil {
		a.pending = newTable(lasting(op), plain[K], plain[V])
	}
	op.later = true
	checkType[K](op)
	checkType[V](op)
	checkType[U](op)
	var hs []uint64
	n.To(func(b *Batch[K, V]) {
		if len(a.step.k) == 0 {
			a.site.later = append(a.site.later, a)
		}
		a.step.k = append(a.step.k, b.K...)
		a.step.v = append(a.step.v, b.V...)
		a.step.h = append(a.step.h, b.hashes(a.in.hash, &hs)...)
	})
	return a.in.node
}

func (a *async[K, V, U]) operator() *Op   { return a.op }
func (a *async[K, V, U]) loops() bool     { return false }
func (a *async[K, V, U]) exchange() *link { return nil }
func (a *async[K, V, U]) end(error)       {}
func (a *async[K, V, U]) discard()        { a.step.clear() }

// deliver has the calls made that the step asked for. The holder of the token counts them,
// so that the site does not end before.
func (a *async[K, V, U]) deliver() {
	a.site.calls.Add(int64(len(a.step.k)))
	a.mu.Lock()
	a.enqueue(a.step)
	if !a.stalled && a.waiting() > a.site.g.set.Queue {
		a.stalled = true
		a.site.stall()
	}
	a.mu.Unlock()
	a.discard()
}

// callAll makes the calls of a driven site: one after the other, at once. When an
// answer is taken is the chooser's decision.
func (a *async[K, V, U]) callAll() {
	s := a.step
	a.step = columns[K, V]{}
	a.site.calls.Add(int64(len(s.k)))
	for i, k := range s.k {
		u, ok := a.call(k, s.v[i])
		if !ok {
			return
		}
		a.in.answer(k, u, s.h[i])
	}
}

// pop takes the next call from the queue, with mu held.
func (a *async[K, V, U]) pop() (k K, v V, h uint64) {
	var zeroK K
	var zeroV V
	k, v, h = a.queue.k[a.off], a.queue.v[a.off], a.queue.h[a.off]
	a.queue.k[a.off], a.queue.v[a.off] = zeroK, zeroV
	a.off++
	return k, v, h
}

// enqueue adds calls to the queue, with mu held.
func (a *async[K, V, U]) enqueue(c columns[K, V]) {
	q := &a.queue
	if a.off > len(q.k)/2 {
		n := copy(q.k, q.k[a.off:])
		copy(q.v, q.v[a.off:])
		copy(q.h, q.h[a.off:])
		clear(q.k[n:])
		clear(q.v[n:])
		*q, a.off = columns[K, V]{q.k[:n], q.v[:n], q.h[:n]}, 0
	}
	*q = columns[K, V]{append(q.k, c.k...), append(q.v, c.v...), append(q.h, c.h...)}
	a.spawn()
}

// spawn starts a goroutine if calls wait, with mu held. There is one at most that has yet
// to take its first call, and it starts the next one before making it: as many run as
// calls take long, and those that return at once share one.
func (a *async[K, V, U]) spawn() {
	if !a.coming && a.running < a.limit && a.off < len(a.queue.k) {
		a.coming = true
		a.running++
		go a.calls()
	}
}

// waiting returns how many calls have to wait until others have returned, with mu held.
func (a *async[K, V, U]) waiting() int {
	free := a.limit - a.running
	if a.coming {
		free++
	}
	return len(a.queue.k) - a.off - free
}

// calls makes one call after the other until none waits, or until one failed: that ended
// the flow, and perhaps this goroutine.
func (a *async[K, V, U]) calls() {
	a.mu.Lock()
	a.coming = false
	defer func() {
		a.running--
		a.mu.Unlock()
	}()
	for a.off < len(a.queue.k) && a.site.g.ctx.Err() == nil {
		k, v, h := a.pop()
		a.spawn()
		resume := a.stalled && a.waiting() <= a.site.g.set.Queue/2
		if resume {
			a.stalled = false
		}
		if !a.unlocked(k, v, h, resume) {
			return
		}
	}
}

// unlocked makes a call with mu free; it is called and returns with mu held, even if the
// call ends the goroutine.
func (a *async[K, V, U]) unlocked(k K, v V, h uint64, resume bool) bool {
	a.mu.Unlock()
	defer a.mu.Lock()
	if resume {
		a.site.resume()
	}
	return a.made(k, v, h)
}

// made makes a call and has its answer accepted. It reports false if that is of no use
// any more, since the flow has ended.
func (a *async[K, V, U]) made(k K, v V, h uint64) bool {
	u, ok := a.call(k, v)
	switch {
	case !ok:
		return false
	case a.pending == nil:
		a.in.answer(k, u, h)
	case a.site.g.ctx.Err() != nil: // what f returned may be of no worth: it is called again
		return false
	default:
		if err := a.answered(k, u); err != nil {
			a.site.g.Fail(err)
			return false
		}
	}
	return true
}

// call calls f. The flow ends if f panics, or ends its goroutine with runtime.Goexit, as
// FailNow of a test does: there is no answer then.
func (a *async[K, V, U]) call(k K, v V) (u U, ok bool) {
	defer func() {
		if ok {
			return
		}
		p := recover()
		if p == nil {
			p = errGoexit
		}
		a.site.g.Fail(a.site.g.set.Wrap(&Panic{Op: a.op, Site: a.site.name, Key: k, HasKey: true, Value: p, Stack: debug.Stack()}))
		if a.pending == nil {
			a.site.calls.Add(-1) // after the failure: a site without calls may end by itself
		}
	}()
	u = a.f(a.site.g.ctx, v)
	return u, true
}
