package operators

import (
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// How many timers of each operator are set.

func (a *after[K, V]) Running() int { return a.Idx.Len() }

func (t *expiring[K, V]) Running() int { return t.idx.Len() }

func (t *interval) Running() int { return oneIf(t.Next()) }

func (m *retained[K]) Running() int { return oneIf(m.Next()) }

func oneIf(_ int64, ok bool) int {
	if ok {
		return 1
	}
	return 0
}

// An interval is a timer that fires again and again, on multiples of its period since
// the start. Of firings that were missed, because the location was busy, only the
// last one happens.
type interval struct {
	engine.Tiring
	every int64
	at    *int64
	out   *engine.Node[time.Duration]
	one   [1]time.Duration
}

func (t *interval) Idle() bool { return false }

// Interval returns the times at which a timer fires. To the location it is an input that
// stays open until the flow is stopped.
func Interval(s *engine.Location, op *engine.Op, every time.Duration) *engine.Node[time.Duration] {
	h := s.Top()
	t := &interval{every: int64(every), at: state.NewVar(engine.Lasting(op), engine.NoDeadline), out: engine.NewNode[time.Duration](h)}
	op.Scratch(&t.one)
	s.Timed(t, op)
	s.Clocked(h.Component)
	s.Open++
	s.Starts.AtEnd(func() {
		s.Mu.Lock()
		closed := s.Closing
		s.Mu.Unlock()
		if !closed {
			*t.at, s.Rearm = t.every, true
		}
	})
	return t.out
}

func (t *interval) Next() (int64, bool) {
	if t.Tired() {
		return engine.NoDeadline, false
	}
	return *t.at, *t.at != engine.NoDeadline
}

// Skip leaves out all firings up to now but the last. That one happens also in a
// simulation, if it is for another timer that time passes.
func (t *interval) Skip(now int64) {
	if *t.at <= now {
		*t.at = now / t.every * t.every
		t.OnceMore()
	}
}

func (t *interval) Expire(now int64) {
	if now < *t.at {
		return
	}
	t.Skip(now)
	t.Fired()
	t.one[0] = time.Duration(*t.at)
	*t.at += t.every
	t.out.Push(t.one[:])
}

// after is an After operator: entries that wait for their time.
type after[K comparable, V any] struct {
	engine.EveryTimer
	*state.Pending[K, V]
	loc   *engine.Location
	out   *engine.KeyedNode[K, V]
	due   engine.Columns[K, V]
	batch engine.Batch[K, V]
	fired func(h uint32)

	// Of entries that can be forgotten: the slot of each key plus one, or 0 when its timer has
	// fired; nil elsewhere.
	lives *keyed.Table[K, uint32]
	over  lifeRows[K, V]
}

// After returns the entries of n, each delay after it appeared: a constant one, or
// one for each entry if each is not nil.
func After[K comparable, V any](n *engine.KeyedNode[K, V], op *engine.Op, delay time.Duration, each func(V) time.Duration) *engine.KeyedNode[K, V] {
	h := engine.Same(op.Name, n)
	if h.Region == &h.Loc.Starts {
		h.Region = nil // what comes of constants comes later
	}
	if h.Region != nil {
		engine.Misuse(op.Name, "nothing changes later inside %s", h.Region)
	}
	if !n.Forgets { // else a removal is passed on at once
		h.Deps, h.Loops = nil, nil // a firing is a record, so that what follows is no feedback of a slice into itself
	}
	h.Mark = nil
	a := &after[K, V]{loc: h.Loc, out: engine.NewKeyedNode[K, V](h)}
	a.Pending = state.NewPending[K, V](engine.Remember(op, &h), each == nil)
	if n.Forgets {
		a.lives = state.NewTable(engine.Remember(op, &h), state.Plain[K], state.Plain[uint32])
		a.out.Revises, a.out.Forgets = true, true
	}
	op.Holds(&a.due, &a.over)
	op.Scratch(&a.batch)
	a.fired = func(slot uint32) {
		k, v, h := a.Take(slot)
		if a.lives != nil {
			p, _ := a.lives.Put(k, h)
			*p = 0
		}
		a.due.K, a.due.V, a.due.H = append(a.due.K, k), append(a.due.V, v), append(a.due.H, h)
	}
	h.Loc.Timed(a, op)
	h.Loc.Clocked(h.Component)
	hash := engine.Hasher[K]()
	var hs []uint64
	op.Scratch(&hs)
	c, cur := track(op, n, func(b *engine.Batch[K, V]) {
		now := engine.NoDeadline // see ForgetAfter
		for i, h := range b.Hashes(hash, &hs) {
			if b.Gone != nil && b.Gone[i] {
				a.end(b.K[i], h)
				continue
			}
			if now == engine.NoDeadline {
				now = a.loc.Clock()
			}
			d := delay
			if each != nil {
				op.At = i
				d = each(b.V[i])
			}
			at := now + int64(max(d, 0))
			if a.loc.Alarm != nil {
				a.loc.Alarm(int64(max(d, 0)), at)
			}
			a.set(b.K[i], b.V[i], h, at)
		}
		a.over.pushTo(a.out)
	})
	c.One = func(k K, v V, kh uint64) {
		cur.enter(k)
		if kh == 0 {
			kh = hash.Hash(k)
		}
		d := delay
		if each != nil {
			d = each(v)
		}
		at := a.loc.Clock() + int64(max(d, 0))
		if a.loc.Alarm != nil {
			a.loc.Alarm(int64(max(d, 0)), at)
		}
		a.set(k, v, kh, at)
	}
	return a.out
}

// set sets the timer of an entry.
func (a *after[K, V]) set(k K, v V, h uint64, at int64) {
	slot := a.Slot(k, v, h)
	if a.lives != nil {
		p, _ := a.lives.Put(k, h)
		*p = slot + 1
	}
	a.Idx.Add(slot, at)
	if at < a.loc.ArmedFor { // else the location wakes up in time anyway
		a.loc.Rearm = true
	}
}

// end ends the life of k: its timer does not fire, and if it has fired, what it gave is
// forgotten.
func (a *after[K, V]) end(k K, h uint64) {
	p := a.lives.Get(k, h)
	if p == nil {
		return
	}
	if *p == 0 {
		a.over.forget(k, h)
	} else {
		a.Cancel(*p - 1)
	}
	a.lives.Delete(k, h)
}

func (a *after[K, V]) Next() (int64, bool) { return a.Idx.Next() }

func (a *after[K, V]) Expire(now int64) {
	a.Idx.Expire(now, a.fired)
	a.due.PushBlocks(a.out, &a.batch)
	clear(a.due.K)
	clear(a.due.V)
	a.due = engine.Columns[K, V]{K: a.due.K[:0], V: a.due.V[:0], H: a.due.H[:0]}
}
