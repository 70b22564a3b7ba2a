package port

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/engine/token"
	"github.com/millrace/millrace/internal/keyed"
)

// An EntryOutput is an output of a keyed singleton whose values never change. It keeps every entry until it is taken or
// forgotten.
type EntryOutput[K comparable, V any] struct {
	engine.Endless
	engine.NoValue
	loc     *engine.Location
	op      *engine.Op
	hash    *keyed.Hasher[K]
	check   func(K) (K, error)          // see [keyed.CheckOf]; nil if every value is its own key
	step    engine.Columns[K, V]        // given in this step; held by the token
	packed  []string                    // packed values of step, if values are packed; held by the token or the feeder
	shared  []string                    // packed values that the location that gave the step keeps, if it is in this process; held by the feeder
	gave    []string                    // packed values of the last step, until Gave is called; held by the token
	gone    engine.Columns[K, struct{}] // dropped in this step, after its entries were given; held by the token
	goneAt  *keyed.Table[K, int]        // index of each key in gone, if keys can come back within a step; otherwise nil
	taken   engine.Columns[K, struct{}] // taken before this step, if the history is elsewhere; held by the token or the feeder
	passing []foundEntry[K, V]          // found in the history, for waiters; held by the feeder
	request ownRequest[K, V]            // see Ask
	listed  bool                        // among the location's Ports; held by the token

	_       token.CacheLinePad
	mu      sync.Mutex
	entries state.Entries[K, V]
	count   uint64                         // number of entries given
	waiting *keyed.Table[K, *keyWaiter[V]] // the first waiter of each key
	line    *arrivals[K]                   // of the entries, for TakeNext; nil until its first call
	ended   bool
	err     error

	listeners atomic.Int32 // number of waiters in waiting; changed with mu held

	_     token.CacheLinePad
	woken []*keyWaiter[V] // by the step that is being released; held by the token
	idle  sync.Pool       // of waiters; each graph has its own, as with WaiterPool
}

// changed reports whether the step has changed the output.
func (out *EntryOutput[K, V]) changed() bool {
	return len(out.step.K)+len(out.gone.K)+len(out.taken.K) > 0
}

// changing lists the output as changed by the step, once. It does so even if the only change was a drop that was undone because
// the entry came back in the same step.
func (out *EntryOutput[K, V]) changing() {
	if !out.listed {
		out.listed = true
		out.loc.Ports = append(out.loc.Ports, out)
	}
}

// Locked calls f while no other goroutine can change the entries.
func (out *EntryOutput[K, V]) Locked(f func()) {
	out.mu.Lock()
	defer out.mu.Unlock()
	f()
}

// NewEntryOutput makes an output for the entries of n.
func NewEntryOutput[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op) *EntryOutput[K, V] {
	if n.Region != nil && n.Region.Name != "" {
		engine.Misuse(op.Name, "the collection is inside %s: emit it first", n.Region)
	}
	out := &EntryOutput[K, V]{loc: n.Loc, op: op, hash: keyed.HasherOf[K](), check: keyed.CheckOf[K](), entries: state.NewEntries[K, V](op), waiting: keyed.NewTable[K, *keyWaiter[V]]()}
	n.Loc.AddOutput(op, out)
	if n.Forgets {
		out.goneAt = keyed.NewTable[K, int]()
	}
	var hs []uint64
	one := func(k K, v V, h uint64) {
		if h == 0 {
			h = out.hash.Hash(k)
		}
		if out.goneAt != nil {
			out.back(k, h)
		}
		if out.request.on && out.answers(k, v, h) {
			return
		}
		out.changing()
		out.step.K, out.step.V, out.step.H = append(out.step.K, k), append(out.step.V, v), append(out.step.H, h)
	}
	checked := engine.CheckedReader[V](op) != nil // each entry goes through one, which reports it
	if place := engine.PlaceChecked(op, engine.PlacedBy[K](op)); place != nil {
		give := one
		checked, one = true, func(k K, v V, h uint64) {
			place(k)
			give(k, v, h)
		}
	}
	one = engine.CheckedEntry(op, one)
	n.To(func(b *engine.Batch[K, V]) {
		h := b.Hashes(out.hash, &hs)
		if b.Gone != nil {
			for i, k := range b.K {
				if b.Gone[i] {
					out.drop(k, h[i])
				} else {
					one(k, b.V[i], h[i])
				}
			}
			return
		}
		if out.request.on || out.goneAt != nil || checked {
			for i, k := range b.K {
				one(k, b.V[i], h[i])
			}
			return
		}
		out.changing()
		out.step.K = append(out.step.K, b.K...)
		out.step.V = append(out.step.V, b.V...)
		out.step.H = append(out.step.H, h...)
	}).One = one
	return out
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
	if out.line != nil {
		out.line.readers.Signal()
	}
	out.mu.Unlock()
	out.Forget()
	return len(out.woken) > 0
}

// Forget implements [engine.Port].
func (out *EntryOutput[K, V]) Forget() {
	out.listed = false
	engine.ClearEntries(&out.step)
	if len(out.packed) > 0 {
		clear(out.packed)
		out.packed = out.packed[:0]
	}
	out.shared = nil
	engine.ClearEntries(&out.gone)
	if out.goneAt != nil && out.goneAt.Len() > 0 {
		out.goneAt.Clear()
	}
	engine.ClearEntries(&out.taken)
	if out.passing != nil {
		out.passing = nil
	}
}

// Give implements [engine.Port].
func (out *EntryOutput[K, V]) Give() {
	out.mu.Lock()
	out.count += uint64(len(out.step.K))
	for i, k := range out.taken.K {
		out.entries.Delete(k, out.taken.H[i])
	}
	for _, x := range out.passing {
		if out.waiting.Len() > 0 {
			out.hand(x.k, x.h, x.v)
		}
	}
	for i, k := range out.step.K {
		if out.waiting.Len() > 0 && out.hand(k, out.step.H[i], out.given(i)) {
			continue
		}
		added := false
		if out.entries.Packs() {
			added = out.entries.PutPacked(k, out.step.H[i], out.packed[i])
		} else {
			added = out.entries.Put(k, out.step.H[i], out.step.V[i])
		}
		if added && out.line != nil {
			out.join(k, out.step.H[i])
		}
	}
	for i, k := range out.gone.K {
		out.entries.Delete(k, out.gone.H[i])
	}
}

// End implements [engine.Output].
func (out *EntryOutput[K, V]) End(err error) {
	out.mu.Lock()
	out.ended, out.err = true, err
	for _, first := range keyed.All(out.waiting) {
		for w := *first; w != nil; w = w.next {
			w.Signal()
		}
	}
	if out.line != nil {
		out.line.readers.Signal()
	}
	out.mu.Unlock()
}

// Get returns the value of k, if there is one.
func (out *EntryOutput[K, V]) Get(k K) (v V, ok bool) {
	if out.check != nil {
		var err error
		if k, err = out.check(k); err != nil {
			return v, false
		}
	}
	h := out.hash.Hash(k)
	out.turn("look at", k, engine.Reads, nil)
	out.mu.Lock()
	v, ok, err := out.entries.Get(k, h)
	out.mu.Unlock()
	if err != nil {
		out.loc.Graph.Fail(fmt.Errorf("%s, key %v: %w", out.op, k, err))
	}
	if out.loc.Simulated() {
		out.loc.Used(engine.Use{Op: out.op, Do: "get", Key: k, Value: v, OK: ok})
	}
	return v, ok
}

// Len returns the number of entries kept.
func (out *EntryOutput[K, V]) Len() int {
	if out.loc.Turn(engine.Turn{Action: "count", Op: out.op}) == nil {
		out.op.Touch(0, engine.Reads)
	}
	out.mu.Lock()
	n := out.entries.Len()
	out.mu.Unlock()
	if out.loc.Simulated() {
		out.loc.Used(engine.Use{Op: out.op, Do: "len", Value: n, OK: true})
	}
	return n
}

// Await returns the value of k as soon as there is one. With take, it removes the entry, and returns engine.ErrTaken if another
// Take received it. It returns io.EOF if the flow ended and k never appeared, and the flow's error if it failed.
//
// If the history is kept elsewhere, all callers that want to take the entry receive it, and the history decides which of them has
// taken it.
func (out *EntryOutput[K, V]) Await(ctx context.Context, k K, take bool) (v V, err error) {
	r := out.loc.Graph.Settings.Remote
	if r == nil || !take {
		v, err = out.await(ctx, k, take, r)
		if out.loc.Simulated() {
			do := "await"
			if take {
				do = "take"
			}
			out.loc.Used(engine.Use{Op: out.op, Do: do, Key: k, Value: v, OK: err == nil, Err: err})
		}
		return v, err
	}
	if v, err = out.await(ctx, k, false, r); err != nil {
		return v, err
	}
	if err = out.takeRemote(ctx, r, k); err == engine.ErrTaken {
		var zero V
		v = zero
	}
	return v, err
}

func (out *EntryOutput[K, V]) await(ctx context.Context, k K, take bool, r engine.Remote) (v V, err error) {
	if out.check != nil {
		if k, err = out.check(k); err != nil {
			return v, out.op.BadKey(k, err)
		}
	}
	h := out.hash.Hash(k)
	if out.loc.Simulated() {
		if err = out.awaitTurn(k, h, take); err != nil {
			return v, err
		}
	}
	out.mu.Lock()
	if v, ok, err := out.found(k, h, take); ok || err != nil {
		out.mu.Unlock()
		return v, err
	}
	var key []byte
	if r != nil {
		out.mu.Unlock()
		if key, err = out.encodeKey(k); err != nil {
			return v, err
		}
		out.mu.Lock()
	}
	w := out.waiter(take)
	if out.loc.Wanting() {
		out.mu.Unlock()
		out.loc.Enlist(&w.Waiter)
		out.mu.Lock()
	}
	if v, ok, err := out.found(k, h, take); ok || err != nil {
		out.mu.Unlock()
		out.loc.Leave(&w.Waiter)
		out.put(w)
		return v, err
	}
	out.add(k, h, w)
	if r != nil {
		return out.waitRemote(ctx, r, key, k, h, w)
	}
	return out.wait(ctx, k, h, w)
}

// wait waits for the entry of k on behalf of w, which is already listed. It is called with mu held and returns with mu free.
func (out *EntryOutput[K, V]) wait(ctx context.Context, k K, h uint64, w *keyWaiter[V]) (v V, err error) {
	for err == nil && !out.ended && !w.given {
		out.mu.Unlock()
		if err = out.pause(ctx, w); w.done.Load() {
			out.touch(k, engine.Writes)
			return out.got(w)
		}
		out.mu.Lock()
	}
	if w.given { // at this moment
		out.mu.Unlock()
		for !w.done.Load() {
			<-w.Wake
		}
		return out.got(w)
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

// pause is the location's Pause for w. Once w has the value, it need not look at the location.
func (out *EntryOutput[K, V]) pause(ctx context.Context, w *keyWaiter[V]) error {
	if err := out.loc.Graph.Driver.Wait(ctx, out.loc, &w.Waiter); err != nil || w.done.Load() {
		return err
	}
	out.loc.RunIfHanded(&w.Waiter)
	return nil
}

// found returns the value of k, if there is one. With take, it removes the entry. It is called with mu held.
func (out *EntryOutput[K, V]) found(k K, h uint64, take bool) (v V, ok bool, err error) {
	if v, ok, err = out.entries.Get(k, h); err != nil {
		return v, false, fmt.Errorf("%s, key %v: %w", out.op, k, err)
	}
	if ok && take {
		out.entries.Delete(k, h)
	}
	return v, ok, nil
}

// Figures implements [engine.Output].
func (out *EntryOutput[K, V]) Figures() engine.OutputStatus {
	out.mu.Lock()
	defer out.mu.Unlock()
	return engine.OutputStatus{Op: out.op, Kind: engine.Entries, Unread: out.entries.Len(), Given: out.count, Bytes: out.entries.Bytes()}
}
