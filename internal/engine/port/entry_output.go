package port

import (
	"cmp"
	"context"
	"io"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/engine/token"
	"github.com/millrace/millrace/internal/keyed"
)

// An EntryOutput is an output of a keyed singleton whose values never change. It keeps
// every entry until it is taken.
type EntryOutput[K comparable, V any] struct {
	engine.Endless
	engine.NoValue
	loc   *engine.Location
	op    *engine.Op
	hash  *keyed.Hasher[K]
	check func(K) error               // says why a value cannot be a key; nil if all can
	step  engine.Columns[K, V]        // given in this step; held by the token
	drops bool                        // see DropOn
	gone  engine.Columns[K, struct{}] // dropped in this step, after what it gave; held by the token
	asked asked[K, V]                 // see Ask

	_       token.CacheLinePad
	mu      sync.Mutex
	entries *keyed.Table[K, V]
	given   uint64
	waiting *keyed.Table[K, *keyWaiter[V]] // the first waiter of each key
	ended   bool
	err     error

	listeners atomic.Int32 // those in waiting; changed with mu held

	_     token.CacheLinePad
	woken []*keyWaiter[V] // by the step that is being released; held by the token
	idle  sync.Pool       // of waiters; each graph has its own, as with WaiterPool
}

// A keyWaiter waits for the value of one key and receives it. A caller that is woken with
// the value takes neither the lock of the output nor that of the location, for which the
// callers that work on other answers compete.
type keyWaiter[V any] struct {
	token.Waiter
	take  bool
	next  *keyWaiter[V] // the next waiter of the same key, in order of arrival; guarded by the output's mu
	given bool          // it has the value, or is about to; guarded by the output's mu
	done  atomic.Bool   // value is set, and only the waiting caller uses the waiter from now on
	value V
}

// NewEntryOutput lets the entries of n out.
func NewEntryOutput[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op) *EntryOutput[K, V] {
	if n.Region != nil && n.Region.Name != "" {
		engine.Misuse(op.Name, "the collection is inside %s: emit it first", n.Region)
	}
	out := &EntryOutput[K, V]{loc: n.Loc, op: op, hash: keyed.HasherOf[K](), check: keyed.CheckOf[K](), entries: state.NewTable(engine.Lasting(op), state.Plain[K], state.Plain[V]), waiting: keyed.NewTable[K, *keyWaiter[V]]()}
	n.Loc.AddOutput(op, out)
	var hs []uint64
	one := func(k K, v V, h uint64) {
		if h == 0 {
			h = out.hash.Hash(k)
		}
		if out.asked.on && out.answers(k, v, h) {
			return
		}
		if len(out.step.K)+len(out.gone.K) == 0 {
			out.loc.Ports = append(out.loc.Ports, out)
		}
		out.step.K, out.step.V, out.step.H = append(out.step.K, k), append(out.step.V, v), append(out.step.H, h)
	}
	n.To(func(b *engine.Batch[K, V]) {
		h := b.Hashes(out.hash, &hs)
		if out.asked.on {
			for i, k := range b.K {
				one(k, b.V[i], h[i])
			}
			return
		}
		if len(out.step.K)+len(out.gone.K) == 0 {
			out.loc.Ports = append(out.loc.Ports, out)
		}
		out.step.K = append(out.step.K, b.K...)
		out.step.V = append(out.step.V, b.V...)
		out.step.H = append(out.step.H, h...)
	}).One = one
	return out
}

// DropOn makes out drop the entry of each key that appears in n, in the step in which it
// appears. So the flow itself can decide how long an entry is kept. A later entry under the
// same key is a new one.
func DropOn[K comparable, V, X any](out *EntryOutput[K, V], n *engine.KeyedNode[K, X]) {
	out.drops = true
	var hs []uint64
	n.To(func(b *engine.Batch[K, X]) {
		if len(out.step.K)+len(out.gone.K) == 0 {
			out.loc.Ports = append(out.loc.Ports, out)
		}
		out.gone.K = append(out.gone.K, b.K...)
		out.gone.V = append(out.gone.V, make([]struct{}, len(b.K))...)
		out.gone.H = append(out.gone.H, b.Hashes(out.hash, &hs)...)
	})
}

// Operator implements [engine.Output].
func (out *EntryOutput[K, V]) Operator() *engine.Op { return out.op }

// Release implements [engine.Port].
func (out *EntryOutput[K, V]) Release() {
	out.Give()
	if out.Show() {
		out.Wake()
	}
}

// Show implements [engine.Port].
func (out *EntryOutput[K, V]) Show() (more bool) {
	out.mu.Unlock()
	out.Forget()
	return len(out.woken) > 0
}

// Forget implements [engine.Port].
func (out *EntryOutput[K, V]) Forget() {
	out.step.Clear()
	out.gone.Clear()
}

// Give implements [engine.Port].
func (out *EntryOutput[K, V]) Give() {
	out.mu.Lock()
	out.given += uint64(len(out.step.K))
	for i, k := range out.step.K {
		if out.waiting.Len() > 0 && out.hand(k, out.step.H[i], out.step.V[i]) {
			continue
		}
		if v, added := out.entries.Put(k, out.step.H[i]); added {
			*v = out.step.V[i]
		}
	}
	for i, k := range out.gone.K {
		out.entries.Delete(k, out.gone.H[i])
	}
}

// hand gives a value to every Await that waits for it and to one Take, and reports
// whether there is such a Take. It is called with mu held.
func (out *EntryOutput[K, V]) hand(k K, h uint64, v V) (taken bool) {
	place := out.waiting.Get(k, h)
	if place == nil {
		return false
	}
	for at := place; *at != nil; {
		w := *at
		if w.take && taken {
			at = &w.next
			continue
		}
		taken = taken || w.take
		*at, w.next = w.next, nil
		out.listeners.Add(-1)
		w.value, w.given = v, true
		out.woken = append(out.woken, w)
	}
	if *place == nil {
		out.waiting.Delete(k, h)
	}
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

// End implements [engine.Output].
func (out *EntryOutput[K, V]) End(err error) {
	out.mu.Lock()
	out.ended, out.err = true, err
	for _, first := range out.waiting.All() {
		for w := *first; w != nil; w = w.next {
			w.Signal()
		}
	}
	out.mu.Unlock()
}

// Get returns the value of k if it is there.
func (out *EntryOutput[K, V]) Get(k K) (v V, ok bool) {
	if out.check != nil && out.check(k) != nil {
		return v, false
	}
	h := out.hash.Hash(k)
	out.mu.Lock()
	defer out.mu.Unlock()
	if p := out.entries.Get(k, h); p != nil {
		return *p, true
	}
	return v, false
}

// Len returns the number of entries kept.
func (out *EntryOutput[K, V]) Len() int {
	out.mu.Lock()
	defer out.mu.Unlock()
	return out.entries.Len()
}

// Await returns the value of k as soon as there is one; if take, the entry is
// forgotten then. It returns io.EOF if the flow ended and k never appeared, and the
// flow's error if it failed.
func (out *EntryOutput[K, V]) Await(ctx context.Context, k K, take bool) (v V, err error) {
	r := out.loc.Graph.Settings.Remote
	if v, err = out.await(ctx, k, take, r); err == nil && take && r != nil {
		err = out.takenRemote(ctx, r, k)
	}
	return v, err
}

func (out *EntryOutput[K, V]) await(ctx context.Context, k K, take bool, r engine.Remote) (v V, err error) {
	if out.check != nil {
		if err := out.check(k); err != nil {
			return v, out.op.BadKey(k, err)
		}
	}
	h := out.hash.Hash(k)
	out.mu.Lock()
	if p := out.entries.Get(k, h); p != nil {
		return out.found(p, k, h, take), nil
	}
	if r != nil {
		return out.awaitRemote(ctx, r, k, h, take)
	}
	return out.awaitNew(ctx, k, h, take)
}

// awaitNew is await of an entry that was not there. It is called with mu held and returns with
// mu free.
func (out *EntryOutput[K, V]) awaitNew(ctx context.Context, k K, h uint64, take bool) (v V, err error) {
	w := out.waiter(take)
	if out.loc.Wanting() {
		out.mu.Unlock()
		out.loc.Enlist(&w.Waiter)
		out.mu.Lock()
	}
	if p := out.entries.Get(k, h); p != nil {
		v = out.found(p, k, h, take)
		out.loc.Leave(&w.Waiter)
		out.put(w)
		return v, nil
	}
	out.add(k, h, w)
	return out.wait(ctx, k, h, w)
}

// wait waits for the entry of k, for which w waits already. It is called with mu held and
// returns with mu free.
func (out *EntryOutput[K, V]) wait(ctx context.Context, k K, h uint64, w *keyWaiter[V]) (v V, err error) {
	for err == nil && !out.ended && !w.given {
		out.mu.Unlock()
		if err = out.pause(ctx, w); w.done.Load() {
			return out.put(w), nil
		}
		out.mu.Lock()
	}
	if w.given { // in this moment
		out.mu.Unlock()
		for !w.done.Load() {
			<-w.Wake
		}
		return out.put(w), nil
	}
	failed := err // the end of ctx
	if err == nil {
		err = cmp.Or(out.err, io.EOF)
	}
	out.remove(k, h, w)
	out.mu.Unlock()
	out.loc.Leave(&w.Waiter)
	out.put(w)
	if failed != nil {
		err = out.loc.Starved(failed)
	}
	return v, err
}

// pause is the location's pause for w, which has nothing to look for at the location if it has the
// value.
func (out *EntryOutput[K, V]) pause(ctx context.Context, w *keyWaiter[V]) error {
	if err := out.loc.Graph.Driver.Wait(ctx, out.loc, &w.Waiter); err != nil || w.done.Load() {
		return err
	}
	out.loc.RunIfHanded(&w.Waiter)
	return nil
}

func (out *EntryOutput[K, V]) waiter(take bool) *keyWaiter[V] {
	w, ok := out.idle.Get().(*keyWaiter[V])
	if !ok {
		w = &keyWaiter[V]{Waiter: token.Waiter{Wake: make(chan struct{}, 1)}}
	}
	w.take = take
	return w
}

// put keeps a waiter for reuse and returns what it was given. The caller has made sure
// that nobody else knows it; a signal that comes late makes the next one look again.
func (out *EntryOutput[K, V]) put(w *keyWaiter[V]) V {
	var zero V
	v := w.value
	w.value, w.given = zero, false
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

// found is called with mu held and unlocks it.
func (out *EntryOutput[K, V]) found(p *V, k K, h uint64, take bool) V {
	v := *p
	if take {
		out.entries.Delete(k, h)
	}
	out.mu.Unlock()
	return v
}

// Figures implements [engine.Output].
func (out *EntryOutput[K, V]) Figures() engine.OutputStatus {
	out.mu.Lock()
	defer out.mu.Unlock()
	return engine.OutputStatus{Op: out.op, Kind: engine.Entries, Unread: out.entries.Len(), Given: out.given, Bytes: out.entries.Bytes()}
}
