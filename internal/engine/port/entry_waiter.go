package port

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"sync/atomic"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/token"
)

// A keyWaiter waits for the value of one key and receives it. A caller that is woken with the value takes neither the lock of the
// output nor that of the location; callers working on other answers compete for both.
type keyWaiter[V any] struct {
	token.Waiter
	take  bool
	next  *keyWaiter[V] // the next waiter of the same key, in order of arrival; guarded by the output's mu
	given bool          // it has the value, or is about to get it; guarded by the output's mu
	done  atomic.Bool   // value is set; from now on only the waiting caller uses the waiter
	lost  bool          // instead of the value: another Take received it
	value V
}

// hand gives a value to every Await that waits for it and to one Take, and reports whether there was such a Take. Every other
// Take returns engine.ErrTaken. It is called with mu held.
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

// Wake wakes the callers that were given a value. Waiters that are listed at the location are removed from its list first, so
// that the token is not handed to a caller that has left. Listed can be read without the location's mu, since only the token's
// holder removes other waiters from the list.
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

// got returns what a waiter was given, and keeps the waiter for reuse.
func (out *EntryOutput[K, V]) got(w *keyWaiter[V]) (v V, err error) {
	if w.lost {
		err = engine.ErrTaken
	}
	return out.put(w), err
}

// put keeps a waiter for reuse and returns what it was given. The caller has made sure that nothing else refers to it. A late
// signal only makes the next user look again.
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

// add makes w the last waiter for k, with mu held.
func (out *EntryOutput[K, V]) add(k K, h uint64, w *keyWaiter[V]) {
	place, _ := out.waiting.Put(k, h)
	for *place != nil {
		place = &(*place).next
	}
	*place = w
	out.listeners.Add(1)
}

// remove removes w from the waiters for k, with mu held.
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

// arrivals holds the keys of entries in order of arrival, for TakeNext. A key whose entry was taken by another call stays until
// TakeNext meets it, or until most keys are like that. It is guarded by the output's mu.
type arrivals[K comparable] struct {
	keys    []arrival[K]
	off     int // keys[:off] were met
	readers token.WaiterChain
}

type arrival[K comparable] struct {
	k K
	h uint64
}

// TakeNext takes the oldest entry, and waits for one if there is none. It returns io.EOF when the flow has ended and none is
// left, and the flow's error if it failed.
func (out *EntryOutput[K, V]) TakeNext(ctx context.Context) (k K, v V, err error) {
	r := out.loc.Graph.Settings.Remote
	for {
		x, v, err := out.next(ctx, r == nil)
		if out.loc.Simulated() {
			out.loc.Used(engine.Use{Op: out.op, Do: "take next", Key: x.k, Value: v, OK: err == nil, Err: err})
		}
		if err != nil || r == nil {
			return x.k, v, err
		}
		switch err = out.takeRemote(ctx, r, x.k); err {
		case nil:
			return x.k, v, nil
		case engine.ErrTaken:
		default:
			out.mu.Lock()
			out.line.keys = slices.Insert(out.line.keys, out.line.off, x)
			out.line.readers.Signal()
			out.mu.Unlock()
			return k, v, err
		}
	}
}

// next returns the oldest entry. With take, it removes it.
func (out *EntryOutput[K, V]) next(ctx context.Context, take bool) (x arrival[K], v V, err error) {
	if err := context.Cause(ctx); err != nil {
		return x, v, err
	}
	if out.loc.Simulated() {
		if err = out.nextTurn(); err != nil {
			return x, v, err
		}
	}
	out.mu.Lock()
	if out.line == nil {
		out.line = new(arrivals[K])
		for k := range out.entries.Keys() {
			out.join(k, out.hash.Hash(k))
		}
	}
	x, v, ok, err := out.pop(take)
	out.mu.Unlock()
	if ok || err != nil {
		return x, v, err
	}
	w := out.loc.Graph.Waiters.Get()
	out.loc.Enlist(w)
	var failed error // the end of ctx
	out.mu.Lock()
	for {
		if x, v, ok, err = out.pop(take); ok || err != nil || failed != nil {
			break
		}
		if out.ended {
			err = cmp.Or(out.err, io.EOF)
			break
		}
		out.line.readers.Add(w)
		out.mu.Unlock()
		failed = out.loc.Pause(ctx, w)
		out.mu.Lock()
		out.line.readers.Remove(w)
	}
	out.mu.Unlock()
	out.loc.Leave(w)
	out.loc.Graph.Waiters.Put(w)
	if !ok && err == nil && failed != nil {
		err = out.loc.Starved(failed)
	}
	return x, v, err
}

// pop returns the oldest entry that still exists, with mu held.
func (out *EntryOutput[K, V]) pop(take bool) (x arrival[K], v V, ok bool, err error) {
	l := out.line
	for l.off < len(l.keys) {
		x := l.keys[l.off]
		l.keys[l.off] = arrival[K]{}
		l.off++
		if v, ok, err = out.found(x.k, x.h, take); ok || err != nil {
			return x, v, ok, err
		}
	}
	return x, v, false, nil
}

// join appends the key of a new entry to the line, with mu held.
func (out *EntryOutput[K, V]) join(k K, h uint64) {
	l := out.line
	if l.off > len(l.keys)/2 || len(l.keys)-l.off > 2*out.entries.Len()+64 {
		l.keys = slices.DeleteFunc(slices.Delete(l.keys, 0, l.off), func(x arrival[K]) bool {
			return !out.entries.Has(x.k, x.h)
		})
		l.off = 0
	}
	l.keys = append(l.keys, arrival[K]{k, h})
}

// drop drops the entry of k at the end of the step. A caller that waits for k still receives what the step gave before; after the
// step no caller does.
func (out *EntryOutput[K, V]) drop(k K, h uint64) {
	out.drops(k)
	at, added := out.goneAt.Put(k, h)
	if !added {
		return
	}
	*at = len(out.gone.K)
	out.changing()
	engine.AppendEntry(&out.gone, true, k, struct{}{}, h)
}

// back records that k, dropped earlier in the same step, has an entry again. The new entry replaces the old one.
func (out *EntryOutput[K, V]) back(k K, h uint64) {
	at := out.goneAt.Get(k, h)
	if at == nil {
		return
	}
	i, last := *at, len(out.gone.K)-1
	if i < last {
		out.gone.K[i], out.gone.H[i] = out.gone.K[last], out.gone.H[last]
		*out.goneAt.Get(out.gone.K[i], out.gone.H[i]) = i
	}
	out.gone.K, out.gone.V, out.gone.H = out.gone.K[:last], out.gone.V[:last], out.gone.H[:last]
	out.goneAt.Delete(k, h)
}

// DropOn makes out drop the entry of each key that appears in n, in the step in which it appears, so that the flow itself decides
// how long an entry is kept. A later entry under the same key is a new one.
func DropOn[K comparable, V, X any](out *EntryOutput[K, V], n *engine.KeyedNode[K, X]) {
	var hs []uint64
	n.To(func(b *engine.Batch[K, X]) {
		if out.goneAt != nil {
			for i, h := range b.Hashes(out.hash, &hs) {
				out.drop(b.K[i], h)
			}
			return
		}
		for _, k := range b.K {
			out.drops(k)
		}
		out.changing()
		out.gone.K = append(out.gone.K, b.K...)
		out.gone.V = append(out.gone.V, make([]struct{}, len(b.K))...)
		out.gone.H = append(out.gone.H, b.Hashes(out.hash, &hs)...)
	})
}

// Gave implements [engine.Sharing].
func (out *EntryOutput[K, V]) Gave() []string {
	gave := out.gave
	out.gave = nil
	return gave
}

// Share implements [engine.Sharing].
func (out *EntryOutput[K, V]) Share(gave []string) { out.shared = gave }

// FeedFrom implements [engine.Sharing].
func (out *EntryOutput[K, V]) FeedFrom(from engine.Port) bool {
	kept, ok := from.(*EntryOutput[K, V])
	if !ok || !kept.entries.Packs() || !out.entries.Packs() {
		return false
	}
	kept.mu.Lock()
	defer kept.mu.Unlock()
	for k, packed := range kept.entries.AllPacked() {
		out.changing()
		out.step.K = append(out.step.K, k)
		out.step.H = append(out.step.H, out.hash.Hash(k))
		out.packed = append(out.packed, *packed)
	}
	return true
}

// given returns value number i of the step, decoding it only now if it came by FeedFrom.
func (out *EntryOutput[K, V]) given(i int) V {
	if i < len(out.step.V) {
		return out.step.V[i]
	}
	v, err := out.entries.Unpack(out.packed[i])
	if err != nil {
		out.loc.Graph.Fail(fmt.Errorf("%s, key %v: %w", out.op, out.step.K[i], err))
	}
	return v
}

// waitRemote is wait for an entry that comes from elsewhere. It asks for the entry only once w is waiting, since a found entry is
// handed only to waiters.
func (out *EntryOutput[K, V]) waitRemote(ctx context.Context, r engine.Remote, key []byte, k K, h uint64, w *keyWaiter[V]) (v V, err error) {
	out.mu.Unlock()
	coming, done := r.Want(ctx, out.loc.Number, out.op.Index, key)
	defer done()
	out.mu.Lock()
	v, err = out.wait(coming, k, h, w)
	if err != nil && ctx.Err() == nil && coming.Err() != nil {
		err = context.Cause(coming) // the entry cannot come
	}
	return v, err
}

// encodeKey encodes the key of an entry that a caller waits for.
func (out *EntryOutput[K, V]) encodeKey(k K) ([]byte, error) {
	key, err := out.loc.Graph.Settings.Codec.Append(nil, k)
	if err != nil {
		return nil, fmt.Errorf("dataflow: encoding a key %T for %s: %w", k, out.op, err)
	}
	if err := engine.Survives(out.loc.Graph.Settings.Codec, k, key); err != nil {
		return nil, out.op.BadKey(k, err)
	}
	return key, nil
}

// takeRemote asks the history to take an entry.
func (out *EntryOutput[K, V]) takeRemote(ctx context.Context, r engine.Remote, k K) error {
	if out.check != nil {
		k, _ = out.check(k) // await has checked it
	}
	key, err := out.loc.Graph.Settings.Codec.Append(nil, k)
	if err != nil {
		return err
	}
	return r.Take(ctx, out.loc.Number, out.op.Index, key)
}

// Find implements [engine.Output].
func (out *EntryOutput[K, V]) Find(ctx context.Context, key []byte, c codec.Codec) ([]byte, error) {
	var k K
	if err := c.Decode(key, &k); err != nil {
		return nil, err
	}
	v, err := out.await(ctx, k, false, nil)
	if err != nil {
		return nil, err
	}
	return c.Append(nil, v)
}
