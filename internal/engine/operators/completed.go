package operators

import (
	"time"

	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
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
type Sequence[K comparable] func(engine.Memory) completed[K]

// numbered remembers keys by client and number.
type numbered[K, C comparable] struct {
	number func(K) (C, uint64)
	set    *keyed.Sequence[C]
}

// Sequenced returns how keys are remembered of which number gives client and number.
func Sequenced[K, C comparable](number func(K) (C, uint64)) Sequence[K] {
	return func(m engine.Memory) completed[K] { return &numbered[K, C]{number, state.NewSequence[C](m)} }
}

func (m *numbered[K, C]) has(k K, _ uint64) bool { return m.set.Has(m.number(k)) }

func (m *numbered[K, C]) put(k K, _ uint64) bool { return m.set.Add(m.number(k)) }

func (m *numbered[K, C]) add(k K, _ uint64) { m.set.Add(m.number(k)) }

func (m *numbered[K, C]) touch([]uint64) {} // it is small

// Retain says for how many completions, or for how long, a key is remembered.
type Retain struct {
	Keys int
	For  time.Duration
}

// retained remembers keys for a while. It turns when it got limit keys since the last
// turn, or ttl after the first of these; a turn by the clock is a timer that fires,
// and so a record of the history.
type retained[K comparable] struct {
	loc   *engine.Location
	set   *keyed.Recent[K]
	limit int
	ttl   int64
	at    *int64 // of the next turn by the clock, or none
}

// within returns what makes the memory of an operator over h that forgets.
func within[K comparable](h *engine.Head, r Retain) Sequence[K] {
	return func(in engine.Memory) completed[K] {
		m := &retained[K]{loc: h.Loc, set: state.NewRecent[K](in), limit: r.Keys, ttl: int64(r.For), at: state.NewVar(in, engine.NoDeadline)}
		h.Component.Find().Ordered = true // which keys complete first decides which are forgotten
		if m.ttl > 0 {
			h.Loc.Timed(m, in.Op)
			h.Loc.Clocked(h.Component)
		}
		return m
	}
}

func (m *retained[K]) has(k K, h uint64) bool { return m.set.Has(k, h) }

func (m *retained[K]) touch(hs []uint64) { m.set.Touch(hs) }

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
	if m.ttl > 0 && *m.at == engine.NoDeadline {
		m.schedule(m.loc.Clock())
	}
}

// turn forgets the older half, and asks for another turn while something is left.
func (m *retained[K]) turn() {
	m.set.Turn()
	*m.at = engine.NoDeadline
	if m.ttl > 0 && m.set.Len() > 0 {
		m.schedule(m.loc.Clock())
	}
}

func (m *retained[K]) schedule(now int64) {
	*m.at = now + m.ttl
	if m.loc.Alarm != nil {
		m.loc.Alarm(m.ttl, *m.at)
	}
	m.loc.Rearm = true
}

func (m *retained[K]) Next() (int64, bool) { return *m.at, *m.at != engine.NoDeadline }

func (m *retained[K]) Expire(now int64) {
	if now >= *m.at {
		m.turn()
	}
}

// Idle says that nothing is lost if the flow ends before the next turn.
func (m *retained[K]) Idle() bool { return true }

func (m *retained[K]) Skip(int64) {}

// FirstSequenced is First for keys that are remembered by number.
func FirstSequenced[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op, s Sequence[K]) *engine.KeyedNode[K, V] {
	return firstOver(in, op, s)
}

// FirstWithin is First for keys that are forgotten: it returns the first value of
// each key, and of each that was forgotten again.
func FirstWithin[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op, r Retain) *engine.KeyedNode[K, V] {
	return watched(firstOver(in, op, within[K](&in.Head, r)), op)
}

func firstOver[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op, memory Sequence[K]) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](engine.Derived(op, in))
	seen := memory(engine.Remember(op, &out.Head))
	hash := engine.Hasher[K]()
	var hs []uint64
	var c engine.Columns[K, V]
	var o engine.Batch[K, V]
	op.Scratch(&hs, &c, &o)
	consumer, cur := track(op, in, func(b *engine.Batch[K, V]) {
		n := len(b.K)
		hs := b.Hashes(hash, &hs)[:n]
		seen.touch(hs)
		c.K, c.V, c.H = engine.Resize(c.K, n), engine.Resize(c.V, n), engine.Resize(c.H, n)
		vs, m := b.V[:n], 0
		for i, k := range b.K {
			op.At = i
			if !seen.put(k, hs[i]) {
				continue
			}
			c.K[m], c.V[m], c.H[m] = k, vs[i], hs[i]
			m++
		}
		if m > 0 {
			o = engine.Batch[K, V]{K: c.K[:m], V: c.V[:m], H: c.H[:m]}
			out.Push(&o)
		}
	})
	consumer.One = func(k K, v V, h uint64) {
		cur.enter(k)
		if h == 0 {
			h = hash.Hash(k)
		}
		if seen.put(k, h) {
			out.One(k, v, h)
		}
	}
	return out
}

// FoldEarlyStopSequenced is FoldEarlyStop for keys that are remembered by number.
func FoldEarlyStopSequenced[K comparable, V, A any](in *engine.KeyedNode[K, V], op *engine.Op, init func() A, step func(*A, V) bool, s Sequence[K]) *engine.KeyedNode[K, A] {
	return foldEarlyStopOver(in, op, init, step, s)
}

// FoldEarlyStopWithin is FoldEarlyStop for completed keys that are forgotten: a key
// that was starts again.
func FoldEarlyStopWithin[K comparable, V, A any](in *engine.KeyedNode[K, V], op *engine.Op, init func() A, step func(*A, V) bool, r Retain) *engine.KeyedNode[K, A] {
	return watched(foldEarlyStopOver(in, op, init, step, within[K](&in.Head, r)), op)
}

// foldEarlyStopOver keeps the aggregates of keys that are not complete apart from
// done, so that what stays of a complete one is up to done.
func foldEarlyStopOver[K comparable, V, A any](in *engine.KeyedNode[K, V], op *engine.Op, init func() A, step func(*A, V) bool, memory Sequence[K]) *engine.KeyedNode[K, A] {
	out := engine.NewKeyedNode[K, A](engine.Derived(op, in))
	m := engine.Remember(op, &out.Head)
	live, done := state.NewTable(m, state.Plain[K], state.Plain[A]), memory(m)
	hash := engine.Hasher[K]()
	var hs []uint64
	var c engine.Columns[K, A]
	var o engine.Batch[K, A]
	op.Scratch(&hs, &c, &o)
	consumer, cur := track(op, in, func(b *engine.Batch[K, V]) {
		n := len(b.K)
		hs := b.Hashes(hash, &hs)[:n]
		live.Touch(hs)
		done.touch(hs)
		c.K, c.V, c.H = engine.Resize(c.K, n), engine.Resize(c.V, n), engine.Resize(c.H, n)
		vs, m := b.V[:n], 0
		for i, k := range b.K {
			h := hs[i]
			op.At = i
			j, s := live.GetIndex(k, h)
			if s != nil {
				live.Change(j)
			} else {
				if done.has(k, h) {
					continue
				}
				s, _ = live.Put(k, h)
				*s = init()
			}
			if !step(s, vs[i]) {
				continue
			}
			c.K[m], c.V[m], c.H[m] = k, *s, h
			m++
			live.Delete(k, h)
			done.add(k, h)
		}
		if m > 0 {
			o = engine.Batch[K, A]{K: c.K[:m], V: c.V[:m], H: c.H[:m]}
			out.Push(&o)
		}
	})
	consumer.One = func(k K, v V, h uint64) {
		cur.enter(k)
		if h == 0 {
			h = hash.Hash(k)
		}
		j, s := live.GetIndex(k, h)
		if s != nil {
			live.Change(j)
		} else {
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
		out.One(k, acc, h)
	}
	return out
}

// watched makes op an observer of its own result: what it forgot shows there.
func watched[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op) *engine.KeyedNode[K, V] {
	w := n.Loc.Graph.Settings.Watch
	if w == nil {
		return n
	}
	n.Add(func(b *engine.Batch[K, V]) {
		for i, k := range b.K {
			w.Saw(n.Loc.Name, engine.FirstObserver+uint64(op.Index)<<32^digest.Of(k), digest.Of(b.V[i]))
		}
	})
	return n
}
