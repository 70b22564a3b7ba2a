package engine

import (
	"time"

	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/keyed"
)

// completed is what an operator remembers of the keys that it is done with.
type completed[K comparable] interface {
	has(k K, h uint64) bool
	put(k K, h uint64) (added bool)
	add(k K, h uint64) // a key that it has not
	touch(hs []uint64)
}

// A Sequence makes the memory of an operator whose keys are numbered.
type Sequence[K comparable] func(memory) completed[K]

// numbered remembers keys by client and number.
type numbered[K, C comparable] struct {
	number func(K) (C, uint64)
	set    *keyed.Sequence[C]
}

// Sequenced returns how keys are remembered of which number gives client and number.
func Sequenced[K, C comparable](number func(K) (C, uint64)) Sequence[K] {
	return func(m memory) completed[K] { return &numbered[K, C]{number, newSequence[C](m)} }
}

func (m *numbered[K, C]) has(k K, _ uint64) bool { return m.set.Has(m.number(k)) }
func (m *numbered[K, C]) put(k K, _ uint64) bool { return m.set.Add(m.number(k)) }
func (m *numbered[K, C]) add(k K, _ uint64)      { m.set.Add(m.number(k)) }
func (m *numbered[K, C]) touch([]uint64)         {} // it is small

// Retain says for how many completions, or for how long, a key is remembered.
type Retain struct {
	Keys int
	For  time.Duration
}

// retained remembers keys for a while. It turns when it got limit keys since the last
// turn, or ttl after the first of these; a turn by the clock is a timer that fires,
// and so a record of the history.
type retained[K comparable] struct {
	site  *Site
	set   *keyed.Recent[K]
	limit int
	ttl   int64
	at    *int64 // of the next turn by the clock, or none
}

// within returns what makes the memory of an operator over h that forgets.
func within[K comparable](h *Head, r Retain) Sequence[K] {
	return func(in memory) completed[K] {
		m := &retained[K]{site: h.site, set: newRecent[K](in), limit: r.Keys, ttl: int64(r.For), at: newVar(in, none)}
		h.part.find().ordered = true // which keys complete first decides which are forgotten
		if m.ttl > 0 {
			h.site.timed(m, in.op)
			h.site.clocked(h.part)
		}
		return m
	}
}

func (m *retained[K]) has(k K, h uint64) bool { return m.set.Has(k, h) }
func (m *retained[K]) touch(hs []uint64)      { m.set.Touch(hs) }

func (m *retained[K]) put(k K, h uint64) bool {
	if m.set.Has(k, h) {
		return false
	}
	m.add(k, h)
	return true
}

func (m *retained[K]) add(k K, h uint64) {
	if m.limit > 0 && m.set.Young() >= m.limit {
		m.turn()
	}
	m.set.Add(k, h)
	if m.ttl > 0 && *m.at == none {
		m.schedule(m.site.clock())
	}
}

// turn forgets the older half, and asks for another turn while something is left.
func (m *retained[K]) turn() {
	m.set.Turn()
	*m.at = none
	if m.ttl > 0 && m.set.Len() > 0 {
		m.schedule(m.site.clock())
	}
}

func (m *retained[K]) schedule(now int64) {
	*m.at = now + m.ttl
	if m.site.alarm != nil {
		m.site.alarm(m.ttl, *m.at)
	}
	m.site.rearm = true
}

func (m *retained[K]) next() (int64, bool) { return *m.at, *m.at != none }

func (m *retained[K]) expire(now int64) {
	if now >= *m.at {
		m.turn()
	}
}

// idle says that nothing is lost if the flow ends before the next turn.
func (m *retained[K]) idle() bool { return true }

func (m *retained[K]) skip(int64) {}

// FirstSequenced is First for keys that are remembered by number.
func FirstSequenced[K comparable, V any](in *KNode[K, V], op *Op, s Sequence[K]) *KNode[K, V] {
	return firstOver(in, op, s)
}

// FirstWithin is First for keys that are forgotten: it returns the first value of
// each key, and of each that was forgotten again.
func FirstWithin[K comparable, V any](in *KNode[K, V], op *Op, r Retain) *KNode[K, V] {
	return watched(firstOver(in, op, within[K](&in.Head, r)), op)
}

func firstOver[K comparable, V any](in *KNode[K, V], op *Op, memory Sequence[K]) *KNode[K, V] {
	out := NewKNode[K, V](derived(op, in))
	seen := memory(remember(op, &out.Head))
	hash := hasher[K]()
	var hs []uint64
	var c columns[K, V]
	var o Batch[K, V]
	op.scratch(&hs, &c, &o)
	consumer, cur := track(op, in, func(b *Batch[K, V]) {
		n := len(b.K)
		hs := b.hashes(hash, &hs)[:n]
		seen.touch(hs)
		c.k, c.v, c.h = resize(c.k, n), resize(c.v, n), resize(c.h, n)
		vs, m := b.V[:n], 0
		for i, k := range b.K {
			op.at = i
			if !seen.put(k, hs[i]) {
				continue
			}
			c.k[m], c.v[m], c.h[m] = k, vs[i], hs[i]
			m++
		}
		if m > 0 {
			o = Batch[K, V]{K: c.k[:m], V: c.v[:m], H: c.h[:m]}
			out.push(&o)
		}
	})
	consumer.one = func(k K, v V, h uint64) {
		cur.enter(k)
		if h == 0 {
			h = hash.Hash(k)
		}
		if seen.put(k, h) {
			out.one(k, v, h)
		}
	}
	return out
}

// FoldEarlyStopSequenced is FoldEarlyStop for keys that are remembered by number.
func FoldEarlyStopSequenced[K comparable, V, A any](in *KNode[K, V], op *Op, init func() A, step func(*A, V) bool, s Sequence[K]) *KNode[K, A] {
	return foldEarlyStopOver(in, op, init, step, s)
}

// FoldEarlyStopWithin is FoldEarlyStop for completed keys that are forgotten: a key
// that was starts again.
func FoldEarlyStopWithin[K comparable, V, A any](in *KNode[K, V], op *Op, init func() A, step func(*A, V) bool, r Retain) *KNode[K, A] {
	return watched(foldEarlyStopOver(in, op, init, step, within[K](&in.Head, r)), op)
}

// foldEarlyStopOver keeps the aggregates of keys that are not complete apart from
// done, so that what stays of a complete one is up to done.
func foldEarlyStopOver[K comparable, V, A any](in *KNode[K, V], op *Op, init func() A, step func(*A, V) bool, memory Sequence[K]) *KNode[K, A] {
	out := NewKNode[K, A](derived(op, in))
	m := remember(op, &out.Head)
	live, done := newTable(m, plain[K], plain[A]), memory(m)
	hash := hasher[K]()
	var hs []uint64
	var c columns[K, A]
	var o Batch[K, A]
	op.scratch(&hs, &c, &o)
	consumer, cur := track(op, in, func(b *Batch[K, V]) {
		n := len(b.K)
		hs := b.hashes(hash, &hs)[:n]
		live.Touch(hs)
		done.touch(hs)
		c.k, c.v, c.h = resize(c.k, n), resize(c.v, n), resize(c.h, n)
		vs, m := b.V[:n], 0
		for i, k := range b.K {
			h := hs[i]
			op.at = i
			s := live.Get(k, h)
			if s == nil {
				if done.has(k, h) {
					continue
				}
				s, _ = live.Put(k, h)
				*s = init()
			}
			if !step(s, vs[i]) {
				continue
			}
			c.k[m], c.v[m], c.h[m] = k, *s, h
			m++
			live.Delete(k, h)
			done.add(k, h)
		}
		if m > 0 {
			o = Batch[K, A]{K: c.k[:m], V: c.v[:m], H: c.h[:m]}
			out.push(&o)
		}
	})
	consumer.one = func(k K, v V, h uint64) {
		cur.enter(k)
		if h == 0 {
			h = hash.Hash(k)
		}
		s := live.Get(k, h)
		if s == nil {
			if done.has(k, h) {
				return
			}
			s, _ = live.Put(k, h)
			*s = init()
		}
		if !step(s, v) {
			return
		}
		acc := *s
		live.Delete(k, h)
		done.add(k, h)
		out.one(k, acc, h)
	}
	return out
}

// watched makes op an observer of its own result: what it forgot shows there.
func watched[K comparable, V any](n *KNode[K, V], op *Op) *KNode[K, V] {
	w := n.site.g.set.Watch
	if w == nil {
		return n
	}
	n.add(func(b *Batch[K, V]) {
		for i, k := range b.K {
			w.Saw(n.site.name, firstObserver+uint64(op.index)<<32^digest.Of(k), digest.Of(b.V[i]))
		}
	})
	return n
}
