package windows

import (
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// A Session is the events of a key from the first one until a gap after the last one. It is
// exported so that it can be saved.
type Session[A any] struct {
	From, To int64
	Acc      A
}

// Visits are the open sessions of a key in order of time. They do not overlap.
type Visits[A any] struct {
	All []Session[A]
	Due int64 // when a mark is asked for the next time; not after the end of one of them
}

// sessions is the state of Sessions.
type sessions[K comparable, E, A any] struct {
	table *keyed.Table[K, Visits[A]]
	due   agenda[K]
	init  func() A
	step  func(*A, *E)
	merge func(into *A, other A)
}

// put adds an event to the sessions of a key, and returns the place of its session. The spans
// that sessions had before are given to gone.
func (s *sessions[K, E, A]) put(v *Visits[A], t, gap int64, e *E, gone func(*Session[A])) int {
	end := add(t, gap)
	i := 0
	for i < len(v.All) && v.All[i].To <= t { // a session that ends at t is another one
		i++
	}
	if i == len(v.All) || v.All[i].From >= end {
		v.All = slices.Insert(v.All, i, Session[A]{t, end, s.init()})
		s.step(&v.All[i].Acc, e)
		return i
	}
	x := &v.All[i]
	gone(x)
	s.step(&x.Acc, e)
	x.From, x.To = min(x.From, t), max(x.To, end)
	for i+1 < len(v.All) && v.All[i+1].From < x.To {
		next := &v.All[i+1]
		gone(next)
		s.merge(&x.Acc, next.Acc)
		x.To = max(x.To, next.To)
		v.All = slices.Delete(v.All, i+1, i+2)
	}
	return i
}

// Sessions folds the events of each key that are less than a gap apart.
func Sessions[K comparable, E, A any, W comparable](
	in *engine.KeyedNode[K, E], op *engine.Op, at func(*E) int64, gap int64, init func() A, step func(*A, *E), merge func(into *A, other A), key func(k K, from, to int64) W,
) (closed, open *engine.KeyedNode[W, A]) {
	marks := follow(op, &in.Head)
	r, advance := newResults[W, A](op, &in.Head)
	m := engine.Remember(op, &r.closed.Head)
	s := &sessions[K, E, A]{table: state.NewTable(m, state.Plain[K], state.Plain[Visits[A]]), due: newAgenda[K](m), init: init, step: step, merge: merge}
	hash := engine.Hasher[K]()
	var hs []uint64
	var cur K
	op.Scratch(&hs, &cur)
	op.Key = func() any { return cur }
	gone := func(x *Session[A]) {
		if r.shows {
			r.left(key(cur, x.From, x.To))
		}
	}
	in.To(func(b *engine.Batch[K, E]) {
		op.Loc.At = op.Index
		hs := b.Hashes(hash, &hs)
		s.table.Touch(hs)
		m := marks.Now()
		for i, k := range b.K {
			cur = k
			t := at(&b.V[i])
			if t < m || t == future {
				late(t, m)
			}
			v, added := s.table.Put(k, hs[i])
			j := s.put(v, t, gap, &b.V[i], gone)
			if first := v.All[0].To; added || first < v.Due {
				v.Due = first
				s.due.add(first, k, hs[i])
			}
			if r.shows {
				r.changed(key(k, v.All[j].From, v.All[j].To), v.All[j].Acc)
			}
		}
		r.show()
	})
	marks.Follow(func(now int64) {
		op.Loc.At = op.Index
		s.due.until(now, func(k K, h uint64, t int64) {
			i, v := s.table.GetIndex(k, h)
			if v == nil || v.Due != t { // another one was asked for since
				return
			}
			n := 0
			for n < len(v.All) && v.All[n].To <= now {
				r.close(key(k, v.All[n].From, v.All[n].To), v.All[n].Acc)
				n++
			}
			if n == len(v.All) {
				s.table.Delete(k, h)
				return
			}
			s.table.Change(i)
			v.All = slices.Delete(v.All, 0, n)
			v.Due = v.All[0].To
			s.due.add(v.Due, k, h)
		})
		r.push()
		advance(now)
	})
	return r.closed, r.open
}
