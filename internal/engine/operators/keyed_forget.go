package operators

import (
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// expiring is the content of a ForgetAfter, with a timer for each entry.
//
// It maintains, between batches: an entry lives in the table if and only if the timer
// of its number is pending.
type expiring[K comparable, V any] struct {
	engine.EveryTimer
	index[K, V]
	idx    *state.Deadlines
	hash   *keyed.Hasher[K]
	out    *engine.KeyedNode[K, V]
	due    engine.Columns[K, V]
	gone   []bool
	forget func(i uint32)
}

// ForgetAfter returns the entries of in, and forgets each when it has not changed for the time ttl. A later change of the key
// makes it appear again.
func ForgetAfter[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op, ttl time.Duration) *engine.KeyedNode[K, V] {
	h := engine.Same(op.Name, in)
	if h.Region != nil {
		engine.Misuse(op.Name, "nothing changes later inside %s", h.Region)
	}
	m := engine.Remember(op, &h)
	t := &expiring[K, V]{index: index[K, V]{table: state.NewTable(m, state.Plain[K], state.Plain[V])}, hash: engine.Hasher[K](), out: engine.NewKeyedNode[K, V](h)}
	t.idx = state.NewDeadlines(m, t.table)
	t.idx.Keys(op, func(i uint32) any {
		k, _, _ := t.table.At(i)
		return k
	})
	op.Holds(&t.due)
	op.Scratch(&t.gone, &t.buffer)
	t.out.Index, t.out.Revises, t.out.Forgets = t, true, !in.Revises || in.Forgets
	t.forget = func(i uint32) {
		k, _, _ := t.table.At(i)
		h := t.hash.Hash(k)
		t.due.K, t.due.H = append(t.due.K, k), append(t.due.H, h)
		t.table.Delete(k, h)
	}
	h.Loc.Timed(t, op)
	op.Clocked()
	var hs []uint64
	op.Scratch(&hs)
	in.To(func(b *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		hs := b.Hashes(t.hash, &hs)
		at := engine.NoDeadline // reads the clock only for an entry: removals may come from timers of several deadlines
		changed := false
		for i, k := range b.K {
			if b.Gone != nil && b.Gone[i] {
				if j, v := t.table.GetIndex(k, hs[i]); v != nil {
					t.idx.Cancel(j)
					t.table.Delete(k, hs[i])
					changed = true
				}
				continue
			}
			if at == engine.NoDeadline {
				at = h.Loc.Alarm(ttl)
			}
			j, v, _ := t.table.PutIndex(k, hs[i])
			*v = b.V[i]
			t.idx.Add(j, at)
			changed = true
		}
		if !changed {
			return
		}
		if at < h.Loc.ArmedFor { // otherwise the location wakes up in time anyway
			h.Loc.Rearm = true
		}
		t.out.Push(b)
		t.Changed()
	}).One = func(k K, v V, kh uint64) {
		op.Loc.At = op.Index
		if kh == 0 {
			kh = t.hash.Hash(k)
		}
		at := h.Loc.Alarm(ttl)
		j, p, _ := t.table.PutIndex(k, kh)
		*p = v
		t.idx.Add(j, at)
		if at < h.Loc.ArmedFor {
			h.Loc.Rearm = true
		}
		t.out.One(k, v, kh)
		t.Changed()
	}
	return t.out
}

func (t *expiring[K, V]) Next() (int64, bool) { return t.idx.Next() }

// Deadlines implements [engine.ManyTimers].
func (t *expiring[K, V]) Deadlines(do func(key any, at int64)) { t.idx.EachKey(do) }

func (t *expiring[K, V]) Expire(now int64) {
	t.idx.Expire(now, t.forget)
	n := len(t.due.K)
	if n == 0 {
		return
	}
	t.due.V, t.gone = engine.Resize(t.due.V, n), engine.Resize(t.gone, n)
	for i := range t.gone {
		t.gone[i] = true
	}
	t.out.Push(&engine.Batch[K, V]{K: t.due.K, V: t.due.V, H: t.due.H, Gone: t.gone})
	clear(t.due.K)
	t.due = engine.Columns[K, V]{K: t.due.K[:0], V: t.due.V[:0], H: t.due.H[:0]}
	t.Changed()
}
