package engine

import (
	"time"

	"github.com/millrace/millrace/internal/keyed"
	"github.com/millrace/millrace/internal/timer"
)

// expiring is the content of a ForgetAfter, with a timer for each entry.
//
// It maintains, between batches: an entry lives in the table if and only if the timer
// of its number is pending.
type expiring[K comparable, V any] struct {
	everyTimer
	kept[K, V]
	idx    *timer.FIFO
	hash   *keyed.Hasher[K]
	out    *KNode[K, V]
	due    columns[K, V]
	gone   []bool
	forget func(i uint32)
}

// ForgetAfter returns the entries of in, each until it has not changed for the time
// ttl. A key that in changes later is there again.
func ForgetAfter[K comparable, V any](in *KNode[K, V], op *Op, ttl time.Duration) *KNode[K, V] {
	h := Same(op.Name, in)
	if h.region != nil {
		Misuse(op.Name, "nothing changes later inside %s", h.region)
	}
	m := remember(op, &h)
	t := &expiring[K, V]{kept: kept[K, V]{table: newTable(m, plain[K], plain[V])}, hash: hasher[K](), out: NewKNode[K, V](h)}
	t.idx = newDeadlines(m, t.table)
	op.holds(&t.due)
	op.scratch(&t.gone, &t.room)
	t.out.live, t.out.revises = t, true
	t.forget = func(i uint32) {
		k, _, _ := t.table.At(i)
		h := t.hash.Hash(k)
		t.due.k, t.due.h = append(t.due.k, k), append(t.due.h, h)
		t.table.Delete(k, h)
	}
	h.site.timed(t, op)
	h.site.clocked(h.part)
	var hs []uint64
	op.scratch(&hs)
	in.To(func(b *Batch[K, V]) {
		op.site.at = op.index
		hs := b.hashes(t.hash, &hs)
		at := h.site.clock() + int64(ttl)
		if h.site.alarm != nil {
			h.site.alarm(int64(ttl), at)
		}
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
			j, v, _ := t.table.PutIndex(k, hs[i])
			*v = b.V[i]
			t.idx.Add(j, at)
			changed = true
		}
		if !changed {
			return
		}
		if at < h.site.armedFor { // else the site wakes up in time anyway
			h.site.rearm = true
		}
		t.out.push(b)
		t.changed()
	}).one = func(k K, v V, kh uint64) {
		op.site.at = op.index
		if kh == 0 {
			kh = t.hash.Hash(k)
		}
		at := h.site.clock() + int64(ttl)
		if h.site.alarm != nil {
			h.site.alarm(int64(ttl), at)
		}
		j, p, _ := t.table.PutIndex(k, kh)
		*p = v
		t.idx.Add(j, at)
		if at < h.site.armedFor {
			h.site.rearm = true
		}
		t.out.one(k, v, kh)
		t.changed()
	}
	return t.out
}

func (t *expiring[K, V]) next() (int64, bool) { return t.idx.Next() }

func (t *expiring[K, V]) expire(now int64) {
	t.idx.Expire(now, t.forget)
	n := len(t.due.k)
	if n == 0 {
		return
	}
	t.due.v, t.gone = resize(t.due.v, n), resize(t.gone, n)
	for i := range t.gone {
		t.gone[i] = true
	}
	t.out.push(&Batch[K, V]{K: t.due.k, V: t.due.v, H: t.due.h, Gone: t.gone})
	clear(t.due.k)
	t.due = columns[K, V]{t.due.k[:0], t.due.v[:0], t.due.h[:0]}
	t.changed()
}
