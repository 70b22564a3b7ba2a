package operators

import (
	"time"

	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// A Sequence makes a set of keys that clients count.
type Sequence[K comparable] = state.Sequence[K]

// Sequenced returns a Sequence for keys of which number returns client and number.
func Sequenced[K, C comparable](number func(K) (C, uint64)) *Sequence[K] {
	return &Sequence[K]{
		Make:  func(m engine.Memory) state.Keys[K] { return &sequenceSet[K, C]{number, state.NewSequence[C](m)} },
		Check: func(k K) error { return state.Countable(number, k) },
	}
}

// sequenceSet remembers keys by client and number.
type sequenceSet[K, C comparable] struct {
	number func(K) (C, uint64)
	set    *keyed.Sequence[C]
}

func (m *sequenceSet[K, C]) Has(k K, _ uint64) bool { return m.set.Has(m.number(k)) }

func (m *sequenceSet[K, C]) Put(k K, _ uint64) bool { return m.set.Add(m.number(k)) }

func (m *sequenceSet[K, C]) Add(k K, _ uint64) { m.set.Add(m.number(k)) }

func (m *sequenceSet[K, C]) Touch([]uint64) {} // it is small

// Retain limits how many completed keys are remembered, or for how long.
type Retain struct {
	Keys int
	For  time.Duration
	Open time.Duration // for how long an incomplete aggregate is kept; 0 means forever
}

// recentSet remembers keys for a while. It turns, which forgets the older keys, after limit keys since the last turn, or ttl after
// the first of these. A turn by the clock is a timer that fires, and so a record of the history.
type recentSet[K comparable] struct {
	loc   *engine.Location
	set   *keyed.Recent[K]
	limit int
	ttl   time.Duration
	at    *int64 // of the next turn by the clock, or none

	// forgot collects the keys that a turn forgets, and due pushes them in a turn by the clock.
	forgot func(ks *keyed.Table[K, struct{}])
	due    func()
}

// within returns a constructor of a memory, for an operator over h, that forgets keys. If a consumer of out wants to know,
// forgotten keys are collected in rows and pushed to out.
func within[K comparable, V any](h *engine.Head, r Retain) func(in engine.Memory, rows *lifeRows[K, V], out *engine.KeyedNode[K, V]) state.Keys[K] {
	return func(in engine.Memory, rows *lifeRows[K, V], out *engine.KeyedNode[K, V]) state.Keys[K] {
		hash := engine.Hasher[K]()
		forgot := func(ks *keyed.Table[K, struct{}]) {
			if ks.Len() > 0 && out.WantsGone() {
				for k := range keyed.All(ks) {
					forgetRow(rows, k, hash.Hash(k))
				}
			}
		}
		m := &recentSet[K]{forgot: forgot, due: func() { pushRows(out, rows) }, loc: h.Loc, set: state.NewRecent[K](in), limit: r.Keys, ttl: r.For, at: state.NewVar(in, engine.NoDeadline)}
		in.Op.MixesKeys() // which keys complete first decides which are forgotten
		if m.ttl > 0 {
			h.Loc.Timed(m, in.Op)
			in.Op.Clocked()
		}
		return m
	}
}

func (m *recentSet[K]) Has(k K, h uint64) bool { return m.set.Has(k, h) }

func (m *recentSet[K]) Touch(hs []uint64) { m.set.Touch(hs) }

func (m *recentSet[K]) Put(k K, h uint64) bool {
	if m.set.Has(k, h) {
		return false
	}
	m.Add(k, h)
	return true
}

func (m *recentSet[K]) Add(k K, h uint64) {
	if m.limit > 0 && m.set.Young() >= m.limit {
		m.turn()
	}
	m.set.Add(k, h)
	if m.ttl > 0 && *m.at == engine.NoDeadline {
		m.schedule()
	}
}

// turn forgets the older generation, and schedules another turn while keys are left.
func (m *recentSet[K]) turn() {
	_, old := m.set.Generations()
	m.forgot(old)
	m.set.Turn()
	*m.at = engine.NoDeadline
	if m.ttl > 0 && m.set.Len() > 0 {
		m.schedule()
	}
}

func (m *recentSet[K]) schedule() {
	*m.at = m.loc.Alarm(m.ttl)
	m.loc.Rearm = true
}

func (m *recentSet[K]) Next() (int64, bool) { return *m.at, *m.at != engine.NoDeadline }

func (m *recentSet[K]) Expire(now int64) {
	if now >= *m.at {
		m.turn()
		m.due()
	}
}

// Idle returns true: nothing is lost if the flow ends before the next turn.
func (m *recentSet[K]) Idle() bool { return true }

func (m *recentSet[K]) Skip(int64) {}

// FirstSequenced is First for keys that are remembered by number.
func FirstSequenced[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op, s *Sequence[K]) *engine.KeyedNode[K, V] {
	return firstOver(in, op, remembered[K, V](s))
}

// FirstWithin is First for keys that are forgotten: it returns the first value of each key, again after the key was forgotten.
func FirstWithin[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op, r Retain) *engine.KeyedNode[K, V] {
	out := firstOver(in, op, within[K, V](&in.Head, r))
	out.Revises, out.Forgets = true, true
	return watched(out, op)
}

// A memoryOf makes the memory of an operator that gives out, with rows for forgotten keys.
type memoryOf[K comparable, V any] func(m engine.Memory, rows *lifeRows[K, V], out *engine.KeyedNode[K, V]) state.Keys[K]

// remembered returns the memory of an operator that forgets nothing.
func remembered[K comparable, V any](s *Sequence[K]) memoryOf[K, V] {
	return func(m engine.Memory, _ *lifeRows[K, V], _ *engine.KeyedNode[K, V]) state.Keys[K] { return s.Make(m) }
}

func firstOver[K comparable, V any](in *engine.KeyedNode[K, V], op *engine.Op, memory memoryOf[K, V]) *engine.KeyedNode[K, V] {
	out := engine.NewKeyedNode[K, V](engine.Derived(op, in))
	var rows lifeRows[K, V]
	seen := memory(engine.Remember(op, &out.Head), &rows, out)
	hash := engine.Hasher[K]()
	var hs []uint64
	op.Holds(&rows)
	op.Scratch(&hs)
	consumer, cur := track(op, in, func(b *engine.Batch[K, V]) {
		n := len(b.K)
		hs := b.Hashes(hash, &hs)[:n]
		seen.Touch(hs)
		vs := b.V[:n]
		for i, k := range b.K {
			op.At = i
			if seen.Put(k, hs[i]) {
				addRow(&rows, k, vs[i], hs[i])
			}
		}
		pushRows(out, &rows)
	})
	consumer.One = func(k K, v V, h uint64) {
		cur.enter(k)
		if h == 0 {
			h = hash.Hash(k)
		}
		if seen.Put(k, h) {
			pushRowsAnd(out, &rows, k, v, h)
		}
	}
	return out
}

// FoldEarlyStopSequenced is FoldEarlyStop for keys that are remembered by number.
func FoldEarlyStopSequenced[K comparable, V, A any](in *engine.KeyedNode[K, V], op *engine.Op, init func() A, step func(*A, V) bool, s *Sequence[K]) *engine.KeyedNode[K, A] {
	return foldEarlyStopOver(in, op, init, step, remembered[K, A](s), 0)
}

// FoldEarlyStopWithin is FoldEarlyStop for completed keys that are forgotten: a forgotten key starts again.
func FoldEarlyStopWithin[K comparable, V, A any](in *engine.KeyedNode[K, V], op *engine.Op, init func() A, step func(*A, V) bool, r Retain) *engine.KeyedNode[K, A] {
	out := foldEarlyStopOver(in, op, init, step, within[K, A](&in.Head, r), r.Open)
	out.Revises, out.Forgets = true, true
	return watched(out, op)
}

// foldEarlyStopOver keeps the aggregates of incomplete keys separate from done, which determines what is kept of complete ones.
// If open is not 0, an aggregate that is incomplete after that time is forgotten.
func foldEarlyStopOver[K comparable, V, A any](in *engine.KeyedNode[K, V], op *engine.Op, init func() A, step func(*A, V) bool, memory memoryOf[K, A], open time.Duration) *engine.KeyedNode[K, A] {
	out := engine.NewKeyedNode[K, A](engine.Derived(op, in))
	m := engine.Remember(op, &out.Head)
	var rows lifeRows[K, A]
	live, done := state.NewTable(m, state.Plain[K], state.Plain[A]), memory(m, &rows, out)
	hash := engine.Hasher[K]()
	limit := openFor(m, &out.Head, live, hash, open)
	var hs []uint64
	op.Holds(&rows)
	op.Scratch(&hs)
	consumer, cur := track(op, in, func(b *engine.Batch[K, V]) {
		n := len(b.K)
		hs := b.Hashes(hash, &hs)[:n]
		live.Touch(hs)
		done.Touch(hs)
		vs := b.V[:n]
		for i, k := range b.K {
			h := hs[i]
			op.At = i
			j, s := live.GetIndex(k, h)
			if s != nil {
				live.Change(j)
			} else if done.Has(k, h) {
				continue
			} else {
				j, s, _ = live.PutIndex(k, h)
				*s = init()
				if limit != nil {
					limit.set(j)
				}
			}
			if !step(s, vs[i]) {
				continue
			}
			acc := *s
			if limit != nil {
				limit.cancel(j)
			}
			live.Delete(k, h)
			done.Add(k, h) // may forget other keys, which are pushed first
			addRow(&rows, k, acc, h)
		}
		pushRows(out, &rows)
	})
	consumer.One = func(k K, v V, h uint64) {
		cur.enter(k)
		if h == 0 {
			h = hash.Hash(k)
		}
		j, s := live.GetIndex(k, h)
		if s != nil {
			live.Change(j)
		} else if done.Has(k, h) {
			return
		} else {
			j, s, _ = live.PutIndex(k, h)
			*s = init()
			if limit != nil {
				limit.set(j)
			}
		}
		if !step(s, v) {
			return
		}
		acc := *s
		if limit != nil {
			limit.cancel(j)
		}
		live.Delete(k, h)
		done.Add(k, h)
		pushRowsAnd(out, &rows, k, acc, h)
	}
	return out
}

// openLimit forgets aggregates that are not complete in time.
type openLimit[K comparable, A any] struct {
	loc    *engine.Location
	after  time.Duration
	idx    *state.Deadlines
	forget func(i uint32)
}

func openFor[K comparable, A any](m engine.Memory, h *engine.Head, live *keyed.Table[K, A], hash *keyed.Hasher[K], after time.Duration) *openLimit[K, A] {
	if after == 0 {
		return nil
	}
	t := &openLimit[K, A]{loc: h.Loc, after: after, idx: state.NewDeadlines(m, live)}
	t.forget = func(i uint32) {
		k, _, _ := live.At(i)
		live.Delete(k, hash.Hash(k))
	}
	t.idx.Keys(m.Op, func(i uint32) any {
		k, _, _ := live.At(i)
		return k
	})
	h.Loc.Timed(t, m.Op)
	m.Op.Clocked()
	return t
}

func (t *openLimit[K, A]) set(i uint32) {
	at := t.loc.Alarm(t.after)
	if t.idx.Len() == 0 { // otherwise an earlier one wakes the location
		t.loc.Rearm = true
	}
	t.idx.Add(i, at)
}

func (t *openLimit[K, A]) cancel(i uint32) { t.idx.Cancel(i) }

// Deadlines implements [engine.ManyTimers].
func (t *openLimit[K, A]) Deadlines(do func(key any, at int64)) { t.idx.EachKey(do) }

func (t *openLimit[K, A]) Next() (int64, bool) { return t.idx.Next() }
func (t *openLimit[K, A]) Running() int        { return t.idx.Len() }
func (t *openLimit[K, A]) Expire(now int64)    { t.idx.Expire(now, t.forget) }
func (t *openLimit[K, A]) Idle() bool          { return true }
func (t *openLimit[K, A]) Skip(int64)          {}

// watched makes op an observer of its own result, which shows what it forgot.
func watched[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op) *engine.KeyedNode[K, V] {
	w := n.Loc.Graph.Settings.Watch
	if w == nil {
		return n
	}
	engine.Attach(n, func(b *engine.Batch[K, V]) {
		for i, k := range b.K {
			w.Observed(n.Loc.Name, engine.FirstObserver+uint64(op.Index)<<32^digest.Of(k), digest.Of(b.V[i]))
		}
	})
	return n
}
