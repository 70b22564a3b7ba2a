package port

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/engine/token"
	"github.com/millrace/millrace/internal/keyed"
)

// answers is the input through which the answers of asynchronous calls enter. It holds the entries behind the interface: if it
// embedded them, all their methods would be compiled once more.
type answers[K comparable, V, U any] struct {
	engine.Input
	to *async[K, V, U]
}

// async is the state of a MapAsync operator: the calls that wait for their turn.
type async[K comparable, V, U any] struct {
	engine.Inner
	loc   *engine.Location
	op    *engine.Op
	f     func(context.Context, K, V) U
	limit int
	in    *KeyedInput[K, U]      // what answers holds
	lives *LifeCalls             // if calls are made for lives of keys
	life  func(K) (uint64, bool) // returns the life of a call's key, and whether it is present
	step  engine.Columns[K, V]   // requested in this step; held by the token

	worker func() // is calls: a method value is made once, and not for each goroutine

	// of a graph whose history is kept outside; see async_log.go
	pending *keyed.Table[K, V]   // calls without an answer; nil elsewhere
	fresh   engine.Columns[K, V] // of the pending calls, those that the last step requested
	resumed bool                 // Resume was called

	simulated simulatedCalls[K, V] // of a simulated graph

	_       token.CacheLinePad
	mu      sync.Mutex
	queue   engine.Columns[K, V]
	off     int  // queue[:off] has been started
	running int  // goroutines that make calls
	coming  bool // one of the running goroutines has not looked at the queue yet
	stalled bool
	calling atomic.Int64 // calls begun and not returned; incremented with mu held, decremented before the answer is taken
}

// MapAsync returns, for each entry of n, what f returned for it. The calls are made outside the loop once the step that requested
// them is released, at most limit at a time. An answer is a record of the history.
func MapAsync[K comparable, V, U any](n *engine.KeyedNode[K, V], op *engine.Op, f func(context.Context, K, V) U, limit int) *engine.KeyedNode[K, U] {
	if n.Forgets {
		return mapLives(n, op, f, limit)
	}
	_, out := calls(n, op, f, limit)
	return out
}

// calls is MapAsync of entries that are never forgotten.
func calls[K comparable, V, U any](n *engine.KeyedNode[K, V], op *engine.Op, f func(context.Context, K, V) U, limit int) (*async[K, V, U], *engine.KeyedNode[K, U]) {
	h := engine.Same(op.Name, n)
	if h.Region == &h.Loc.Starts {
		h.Region = nil // results of constants arrive later
	}
	if h.Region != nil {
		engine.Misuse(op.Name, "nothing changes later inside %s", h.Region)
	}
	h.Deps, h.Loops, h.Mark = nil, nil, nil // an answer is a record, so what follows is not feedback of a slice into itself
	a := &async[K, V, U]{loc: h.Loc, op: op, f: f, limit: limit}
	a.worker = a.calls
	a.in = &KeyedInput[K, U]{InputBase: engine.InputBase{Loc: h.Loc, Op: op}, node: engine.NewKeyedNode[K, U](h), hash: engine.Hasher[K](), hashed: true, place: engine.AffinityOf[K](op)}
	in := &answers[K, V, U]{a.in, a}
	h.Loc.AddInput(op, in)
	h.Loc.AddOutput(op, a)
	if h.Loc.Graph.Kept() {
		a.pending = state.NewTable(engine.Lasting(op), state.Plain[K], state.Plain[V])
	}
	op.Later = true
	engine.CheckType[K](op)
	engine.CheckType[V](op)
	engine.CheckType[U](op)
	var hs []uint64
	n.To(func(b *engine.Batch[K, V]) {
		a.requesting()
		a.step.K = append(a.step.K, b.K...)
		a.step.V = append(a.step.V, b.V...)
		a.step.H = append(a.step.H, b.Hashes(a.in.hash, &hs)...)
	}).One = func(k K, v V, h uint64) {
		a.requesting()
		if h == 0 {
			h = a.in.hash.Hash(k)
		}
		engine.AppendEntry(&a.step, true, k, v, h)
	}
	return a, a.in.node
}

// requesting lists a among what the step of the location delivers, before the step's first request.
func (a *async[K, V, U]) requesting() {
	if len(a.step.K) == 0 {
		a.loc.Later = append(a.loc.Later, a)
	}
}

func (a *async[K, V, U]) Operator() *engine.Op { return a.op }

func (a *async[K, V, U]) Loops() bool { return false }

func (a *async[K, V, U]) Exchange() *engine.Edge { return nil }

func (a *async[K, V, U]) End(error) {}

func (a *async[K, V, U]) Discard() { engine.ClearEntries(&a.step) }

// Deliver starts the calls that the step requested. The holder of the token counts them, so that the location does not end before
// they do.
func (a *async[K, V, U]) Deliver() {
	a.loc.Calls.Add(int64(len(a.step.K)))
	a.mu.Lock()
	a.enqueue(&a.step)
	if !a.stalled && a.waiting() > a.loc.Graph.Settings.Queue {
		a.stalled = true
		a.loc.Stall()
	}
	a.mu.Unlock()
}

// pop takes the next call from the queue, with mu held.
func (a *async[K, V, U]) pop() (k K, v V, h uint64) {
	var zeroK K
	var zeroV V
	k, v, h = a.queue.K[a.off], a.queue.V[a.off], a.queue.H[a.off]
	a.queue.K[a.off], a.queue.V[a.off] = zeroK, zeroV
	a.off++
	return k, v, h
}

// enqueue moves calls to the queue, with mu held.
func (a *async[K, V, U]) enqueue(c *engine.Columns[K, V]) {
	q := &a.queue
	if a.off == len(q.K) { // nothing waits: pop has cleared all that is in the queue, which the step can use now
		q.K, q.V, q.H, a.off = q.K[:0], q.V[:0], q.H[:0], 0
		*q, *c = *c, *q
		a.spawn()
		return
	}
	if a.off > len(q.K)/2 {
		n := copy(q.K, q.K[a.off:])
		copy(q.V, q.V[a.off:])
		copy(q.H, q.H[a.off:])
		clear(q.K[n:])
		clear(q.V[n:])
		*q, a.off = engine.Columns[K, V]{K: q.K[:n], V: q.V[:n], H: q.H[:n]}, 0
	}
	*q = engine.Columns[K, V]{K: append(q.K, c.K...), V: append(q.V, c.V...), H: append(q.H, c.H...)}
	engine.ClearEntries(c)
	a.spawn()
}

// spawn starts a goroutine if calls wait, with mu held. At most one goroutine has yet to take its first call, and it starts the
// next goroutine before making that call. So slow calls get as many goroutines as they need, and calls that return at once share
// one.
func (a *async[K, V, U]) spawn() {
	if !a.coming && a.running < a.limit && a.off < len(a.queue.K) {
		a.coming = true
		a.running++
		go a.worker()
	}
}

// waiting returns the number of calls that have to wait until others return, with mu held.
func (a *async[K, V, U]) waiting() int {
	free := a.limit - a.running
	if a.coming {
		free++
	}
	return len(a.queue.K) - a.off - free
}

// calls makes one call after another until none waits or one fails. A failure has ended the flow, and perhaps this goroutine.
func (a *async[K, V, U]) calls() {
	a.mu.Lock()
	a.coming = false
	defer func() {
		a.running--
		if a.loc.Graph.Ctx.Err() == nil {
			a.spawn() // the call has ended the goroutine
		}
		a.mu.Unlock()
	}()
	for a.off < len(a.queue.K) && a.loc.Graph.Ctx.Err() == nil {
		k, v, h := a.pop()
		a.calling.Add(1)
		a.spawn()
		resume := a.stalled && a.waiting() <= a.loc.Graph.Settings.Queue/2
		if resume {
			a.stalled = false
		}
		if !a.unlocked(k, v, h, resume) {
			return
		}
	}
}

// unlocked makes a call with mu free. It is called and returns with mu held, even if the
// call ends the goroutine.
func (a *async[K, V, U]) unlocked(k K, v V, h uint64, resume bool) bool {
	a.mu.Unlock()
	defer a.mu.Lock()
	if resume {
		a.loc.Resume()
	}
	return a.made(k, v, h)
}

// counted makes a call, and counts it in calling until it returns or fails.
func (a *async[K, V, U]) counted(k K, v V) (U, bool) {
	defer a.calling.Add(-1) // even if the call ends the goroutine
	return a.call(k, v)
}

// call calls f. The flow ends if f panics and failures are not kept, or if f ends its goroutine with runtime.Goexit, as FailNow
// of a test does. In both cases there is no answer.
func (a *async[K, V, U]) call(k K, v V) (u U, ok bool) {
	defer func() {
		if ok {
			return
		}
		p := recover()
		switch p {
		case nil:
			p = engine.ErrGoexit
		case engine.ErrUnwound:
			panic(p)
		}
		err := a.loc.Graph.Settings.Wrap(&engine.Panic{Op: a.op, Location: a.loc.Name, Key: k, HasKey: true, Value: p, Stack: debug.Stack()})
		if a.keepsFailures() && a.failed(k, err) == nil {
			return
		}
		a.loc.Graph.Fail(err)
		if a.pending == nil {
			a.loc.Calls.Add(-1) // after the failure: a location without calls may end by itself
		}
	}()
	u = a.f(a.loc.Graph.Ctx, k, v)
	return u, true
}

func (a *async[K, V, U]) Over() (engine.Blocked, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return engine.Blocked{Op: a.op, Waiting: max(a.waiting(), 0), Bound: a.loc.Graph.Settings.Queue, Calls: true, Running: int(a.calling.Load())}, a.stalled
}

// Figures counts the calls without an answer: those that run and those that wait for their turn.
func (a *async[K, V, U]) Figures() engine.OutputStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	s := engine.OutputStatus{Op: a.op, Kind: engine.Calls, Running: int(a.calling.Load()), Waiting: len(a.queue.K) - a.off, Bound: a.loc.Graph.Settings.Queue}
	if a.lives != nil {
		s.Dropped = a.lives.droppedSoFar()
	}
	return s
}

// simulatedCalls are the calls of a simulated graph that are still to be made, in the order in which they were requested.
type simulatedCalls[K comparable, V any] struct {
	engine.Columns[K, V]
	ids     []uint64
	times   map[K]uint64 // how often a call was requested, by key
	made    []madeCall   // calls whose answers were not accepted yet
	started int          // calls whose functions have not returned
}

// A madeCall is a call of a simulated graph whose function has returned.
type madeCall struct {
	id     uint64
	call   string
	answer func()
}

// Ask implements [engine.Calling].
func (a *async[K, V, U]) Ask() {
	q := &a.simulated
	if q.times == nil {
		q.times = make(map[K]uint64)
	}
	a.loc.Calls.Add(int64(len(a.step.K)))
	for i, k := range a.step.K {
		q.times[k]++
		id := engine.ChainDigest(engine.KeyDigest(k), q.times[k])
		engine.AppendEntry(&q.Columns, true, k, a.step.V[i], a.step.H[i])
		q.ids = append(q.ids, id)
		a.op.Touch(id, engine.Writes)
		a.queues()
	}
	a.Discard()
}

// queues records that a call was requested or made. Once more calls wait than may run at once, their order makes a difference.
func (a *async[K, V, U]) queues() {
	if len(a.simulated.ids)+len(a.simulated.made)+a.simulated.started > a.limit {
		a.op.Touch(0, engine.Takes|engine.Writes)
	} else {
		a.op.Touch(0, engine.Adds)
	}
}

// Asked implements [engine.Calling].
func (a *async[K, V, U]) Asked() int {
	return min(len(a.simulated.ids), a.limit-len(a.simulated.made)-a.simulated.started)
}

// CallID implements [engine.Calling].
func (a *async[K, V, U]) CallID(i int) uint64 { return a.simulated.ids[i] }

// CallText implements [engine.Calling].
func (a *async[K, V, U]) CallText(i int) string {
	return fmt.Sprintf("%v:%v", a.simulated.K[i], a.simulated.V[i])
}

// CallNow implements [engine.Calling].
func (a *async[K, V, U]) CallNow(i int, later bool) {
	q := &a.simulated
	a.op.Touch(q.ids[i], engine.Writes)
	if a.lives != nil {
		a.op.TouchKey(q.K[i], engine.Reads) // f is not called if the life is over
	}
	a.queues()
	m := madeCall{id: q.ids[i], call: a.CallText(i)}
	k, v, h := q.K[i], q.V[i], q.H[i]
	engine.DeleteEntry(&q.Columns, i)
	q.ids = append(q.ids[:i], q.ids[i+1:]...)
	u, ok := a.callNow(k, v)
	if !ok {
		return
	}
	m.answer = func() { a.in.answer(k, u, h) }
	if q.made = append(q.made, m); !later {
		a.Answer(len(q.made) - 1)
	}
}

// callNow is call of a simulated graph. Other moves may be made before the function returns.
func (a *async[K, V, U]) callNow(k K, v V) (U, bool) {
	a.simulated.started++
	defer func() { a.simulated.started-- }()
	return a.call(k, v)
}

// Made implements [engine.Calling].
func (a *async[K, V, U]) Made() int { return len(a.simulated.made) }

// MadeID implements [engine.Calling].
func (a *async[K, V, U]) MadeID(i int) uint64 { return a.simulated.made[i].id }

// MadeText implements [engine.Calling].
func (a *async[K, V, U]) MadeText(i int) string { return a.simulated.made[i].call }

// Answer implements [engine.Calling].
func (a *async[K, V, U]) Answer(i int) {
	m := a.simulated.made[i]
	a.op.Touch(m.id, engine.Writes)
	a.queues()
	a.simulated.made = slices.Delete(a.simulated.made, i, i+1)
	m.answer()
}

// Again implements [engine.Calling]. The call is queued before those that were requested later.
func (a *async[K, V, U]) Again(i int) func() {
	q := &a.simulated
	id, k, v, h := q.ids[i], q.K[i], q.V[i], q.H[i]
	before := slices.Clone(q.ids[:i])
	return func() {
		at := 0
		for j, other := range q.ids {
			if slices.Contains(before, other) {
				at = j + 1
			}
		}
		q.K, q.V, q.H = slices.Insert(q.K, at, k), slices.Insert(q.V, at, v), slices.Insert(q.H, at, h)
		q.ids = slices.Insert(q.ids, at, id)
		a.loc.Calls.Add(1)
		a.op.Touch(id, engine.Writes)
		a.queues()
	}
}
