package port

import (
	"sync/atomic"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/token"
)

// A keyWaiter waits for the value of one key and receives it. A caller that is woken with
// the value takes neither the lock of the output nor that of the location, for which the
// callers that work on other answers compete.
type keyWaiter[V any] struct {
	token.Waiter
	take  bool
	next  *keyWaiter[V] // the next waiter of the same key, in order of arrival; guarded by the output's mu
	given bool          // it has the value, or is about to; guarded by the output's mu
	done  atomic.Bool   // value is set, and only the waiting caller uses the waiter from now on
	lost  bool          // instead of the value: another Take has it
	value V
}

// hand gives a value to every Await that waits for it and to one Take, and reports
// whether there is such a Take. Every other Take is told that it is taken. It is called with
// mu held.
func (out *EntryOutput[K, V]) hand(k K, h uint64, v V) (taken bool) {
	place := out.waiting.Get(k, h)
	if place == nil {
		return false
	}
	for w := *place; w != nil; {
		next := w.next
		w.next, w.given = nil, true
		if w.lost = w.take && taken; !w.lost {
			w.value = v
		}
		taken = taken || w.take
		out.listeners.Add(-1)
		out.woken = append(out.woken, w)
		w = next
	}
	out.waiting.Delete(k, h)
	return taken
}

// Wake wakes who was given a value. Those that are listed at the location are taken off the
// list first, so that none is handed the token when it is gone; that they are listed can
// be seen without the location's mu, since only the token's holder takes others off it.
func (out *EntryOutput[K, V]) Wake() {
	if len(out.woken) == 0 {
		return
	}
	locked := false
	for _, w := range out.woken {
		if w.Listed {
			if !locked {
				locked = true
				out.loc.Mu.Lock()
			}
			out.loc.Waiters.Remove(&w.Waiter)
		}
	}
	if locked {
		out.loc.Mu.Unlock()
	}
	for _, w := range out.woken {
		w.done.Store(true)
		w.Signal()
	}
	clear(out.woken)
	out.woken = out.woken[:0]
}

func (out *EntryOutput[K, V]) waiter(take bool) *keyWaiter[V] {
	w, ok := out.idle.Get().(*keyWaiter[V])
	if !ok {
		w = &keyWaiter[V]{Waiter: token.Waiter{Wake: make(chan struct{}, 1)}}
	}
	w.take = take
	return w
}

// got returns what a waiter was given, which is kept for reuse.
func (out *EntryOutput[K, V]) got(w *keyWaiter[V]) (v V, err error) {
	if w.lost {
		err = engine.ErrTaken
	}
	return out.put(w), err
}

// put keeps a waiter for reuse and returns what it was given. The caller has made sure
// that nobody else knows it; a signal that comes late makes the next one look again.
func (out *EntryOutput[K, V]) put(w *keyWaiter[V]) V {
	var zero V
	v := w.value
	w.value, w.given, w.lost = zero, false, false
	w.done.Store(false)
	select {
	case <-w.Wake:
	default:
	}
	out.idle.Put(w)
	return v
}

// add makes w the last who waits for k, with mu held.
func (out *EntryOutput[K, V]) add(k K, h uint64, w *keyWaiter[V]) {
	place, _ := out.waiting.Put(k, h)
	for *place != nil {
		place = &(*place).next
	}
	*place = w
	out.listeners.Add(1)
}

// remove makes w wait for k no longer, with mu held.
func (out *EntryOutput[K, V]) remove(k K, h uint64, w *keyWaiter[V]) {
	first := out.waiting.Get(k, h)
	if first == nil {
		return
	}
	place := first
	for *place != w {
		place = &(*place).next
	}
	*place, w.next = w.next, nil
	out.listeners.Add(-1)
	if *first == nil {
		out.waiting.Delete(k, h)
	}
}
