package port

import (
	"context"

	"github.com/millrace/millrace/internal/engine"
)

// Ask is Send of a record to an input that accepts each key once, followed by a Take of the entry under that key.
//
// A caller that finds the location idle runs it and receives the response without the table of entries; see ownRequest. In all other
// cases the caller is listed as waiting for the entry before the request can be handled, so that no other Take comes first.
func Ask[K comparable, V, U any](ctx context.Context, in *KeyedInput[K, V], out *EntryOutput[K, U], k K, v V) (u U, err error) {
	if in.check != nil {
		if k, err = in.check(k); err != nil {
			return u, in.Op.BadKey(k, err)
		}
	}
	s := in.Loc
	h := in.hash.Hash(k)
	if s != out.loc || in.Shut.Load() || !s.Token.Take() && !s.Token.Await() {
		return askBusy(ctx, in, out, k, v, h)
	}
	s.Mu.Lock()
	if !in.put(k, h) {
		s.Graph.Driver.Settle(s, 1)
		return u, engine.ErrDuplicate
	}
	var w *keyWaiter[U]
	if out.listeners.Load() > 0 {
		w = out.queueBehind(k, h)
	}
	s.Mu.Unlock()
	a := &out.request
	a.on, a.k = w == nil, k
	if !in.stepOne(k, v, h) {
		return u, s.Graph.Err()
	}
	got := a.got
	if w == nil {
		w = a.w
	}
	u = a.v
	*a = ownRequest[K, U]{}
	if got {
		if s.Left() {
			s.Look(true) // a failure of what others left is not one of this request
		}
		return u, nil
	}
	if w == nil { // the response comes later
		w = out.waiter(true)
		s.Mu.Lock()
		out.expect(k, h, w)
		s.Mu.Unlock()
	}
	if err = s.After(true); err != nil {
		out.stopWaiting(k, h, w)
		return u, err
	}
	out.mu.Lock()
	return out.wait(ctx, k, h, w)
}

// askBusy is Ask for a location that is not idle.
func askBusy[K comparable, V, U any](ctx context.Context, in *KeyedInput[K, V], out *EntryOutput[K, U], k K, v V, h uint64) (u U, err error) {
	var w *keyWaiter[U]
	err = in.sendOnce(ctx, k, v, func() {
		w = out.waiter(true)
		if in.Loc == out.loc {
			out.expect(k, h, w)
			return
		}
		out.mu.Lock() // the output's location has its own lock, which is not taken under this one
		out.expectHere(k, h, w)
		out.mu.Unlock()
	})
	if err != nil {
		if w != nil {
			out.stopWaiting(k, h, w)
		}
		return u, err
	}
	if w == nil { // the history accepted it
		return out.Await(ctx, k, true)
	}
	out.mu.Lock()
	return out.wait(ctx, k, h, w)
}

// An ownRequest is the request of a caller that runs the location, and its response, if that comes in the same step. It is held by the
// token.
//
// The response is not put into the table: only the caller sees it, and the caller would have taken it. If another caller waits
// for the same key, the response goes the usual way, because every Await receives it.
type ownRequest[K comparable, V any] struct {
	on  bool // the response has not come yet
	got bool // it came and is v
	k   K
	v   V
	w   *keyWaiter[V] // if the response goes the usual way: the caller's waiter
}

// answers reports whether (k, v) was the response that the caller wants and was kept for it.
func (out *EntryOutput[K, V]) answers(k K, v V, h uint64) bool {
	a := &out.request
	if k != a.k {
		return false
	}
	a.on = false
	if out.listeners.Load() > 0 {
		out.mu.Lock()
		defer out.mu.Unlock()
		if out.waiting.Get(k, h) != nil {
			// There was no waiter before the run; see queueBehind. So a Take that waits now came later.
			place := out.waiting.Get(k, h)
			a.w = out.waiter(true)
			a.w.next, *place = *place, a.w
			out.listeners.Add(1)
			return false
		}
	}
	a.got, a.v = true, v
	return true
}

// queueBehind returns a waiter for the entry of k, queued behind those that wait for it already, or nil if there are none.
func (out *EntryOutput[K, V]) queueBehind(k K, h uint64) (w *keyWaiter[V]) {
	out.mu.Lock()
	defer out.mu.Unlock()
	if out.waiting.Get(k, h) != nil {
		w = out.waiter(true)
		out.add(k, h, w)
	}
	return w
}

// expect makes w wait for the entry of k, with the location's mu held. If the location has few waiters, it also lists w there
// before a step can give w a value.
func (out *EntryOutput[K, V]) expect(k K, h uint64, w *keyWaiter[V]) {
	out.mu.Lock()
	out.expectHere(k, h, w)
	if !w.given && out.loc.Wanting() {
		out.loc.Waiters.Add(&w.Waiter)
	}
	out.mu.Unlock()
}

// expectHere makes w wait for the entry of k, with mu held. If the entry exists, w receives it.
func (out *EntryOutput[K, V]) expectHere(k K, h uint64, w *keyWaiter[V]) {
	if v, ok, _ := out.entries.Get(k, h); ok { // in memory, where values are not packed
		w.value, w.given = v, true
		w.done.Store(true)
		out.entries.Delete(k, h)
		return
	}
	out.add(k, h, w)
}

// stopWaiting makes w stop waiting after the flow has failed.
func (out *EntryOutput[K, V]) stopWaiting(k K, h uint64, w *keyWaiter[V]) {
	out.mu.Lock()
	if !w.given {
		out.remove(k, h, w)
	}
	out.mu.Unlock()
	out.loc.Leave(&w.Waiter)
}

// OneFlow panics unless the two ports belong to one flow and in accepts each key once.
func OneFlow[K comparable, V, U any](op string, in *KeyedInput[K, V], out *EntryOutput[K, U]) {
	if in.Loc.Graph != out.loc.Graph {
		engine.Misuse(op, "%s and %s are ports of two flows", in.Op, out.op)
	}
	if !in.once {
		engine.Misuse(op, "%s takes a key more than once", in.Op)
	}
}
