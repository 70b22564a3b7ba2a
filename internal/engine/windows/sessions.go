package windows

import (
	"encoding/binary"
	"slices"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/codec"
	"github.com/millrace/millrace/internal/engine/state"
	"github.com/millrace/millrace/internal/keyed"
)

// A session is the events of a key from the first one until a gap after the last one.
type session[A any] struct {
	from, to int64
	acc      A
}

// visits are the open sessions of a key in order of time. They do not overlap. Most keys have one, so the first is stored inline.
type visits[A any] struct {
	first session[A]
	more  []session[A]
	due   int64 // used by the calendar; not saved
}

// at returns session number i.
func (v *visits[A]) at(i int) *session[A] {
	if i == 0 {
		return &v.first
	}
	return &v.more[i-1]
}

// insert makes x session number i.
func (v *visits[A]) insert(i int, x session[A]) {
	if i == 0 {
		i, x, v.first = 1, v.first, x
	}
	v.more = slices.Insert(v.more, i-1, x)
}

// remove removes session number i, which must not be the only one.
func (v *visits[A]) remove(i int) {
	if i == 0 {
		i, v.first = 1, v.more[0]
	}
	v.more = slices.Delete(v.more, i-1, i)
}

// sessions is the state of Sessions.
type sessions[K comparable, E, A any] struct {
	table *keyed.Table[K, visits[A]]
	ends  *state.Calendar[K, visits[A]] // of the first session of each key
	init  func() A
	step  func(*A, *E)
	merge func(into *A, other A)
}

// put adds an event to the sessions of a key that has some, and returns the index of its session. It calls gone with each session
// whose span changes or disappears, as it was before.
func (s *sessions[K, E, A]) put(v *visits[A], t, end int64, e *E, gone func(*session[A])) int {
	i := 0
	for i <= len(v.more) && v.at(i).to <= t { // a session that ends at t is another one
		i++
	}
	if i > len(v.more) || v.at(i).from >= end {
		x := session[A]{t, end, s.init()}
		s.step(&x.acc, e)
		v.insert(i, x)
		return i
	}
	x := v.at(i)
	gone(x)
	s.step(&x.acc, e)
	x.from, x.to = min(x.from, t), max(x.to, end)
	for i < len(v.more) && v.at(i+1).from < x.to {
		next := v.at(i + 1)
		gone(next)
		s.merge(&x.acc, next.acc)
		x.to = max(x.to, next.to)
		v.remove(i + 1)
	}
	return i
}

// Sessions folds those events of a key into one session that are less than gap apart.
func Sessions[K comparable, E, A any, W comparable](
	in *engine.KeyedNode[K, E], op *engine.Op, at func(*E) int64, gap int64, init func() A, step func(*A, *E), merge func(into *A, other A), key func(k K, from, to int64) W,
) (closed, open *engine.KeyedNode[W, A]) {
	marks := follow(op, &in.Head)
	r, advance := newResults[W, A](op, &in.Head)
	m := engine.Remember(op, &r.closed.Head)
	s := &sessions[K, E, A]{table: state.NewTable(m, state.Plain[K], visitsCodec[A]), init: init, step: step, merge: merge}
	s.ends = state.NewCalendar(m, s.table, gap, func(v *visits[A]) (*int64, int64) { return &v.due, v.first.to })
	hash := engine.Hasher[K]()
	var hs []uint64
	var cur K
	op.Scratch(&hs, &cur)
	op.Key = func() any { return cur }
	gone := func(x *session[A]) {
		if r.shows {
			r.left(key(cur, x.from, x.to))
		}
	}
	in.To(func(b *engine.Batch[K, E]) {
		op.Loc.At = op.Index
		hs := b.Hashes(hash, &hs)
		s.table.Touch(hs)
		m := marks.Now()
		for i, k := range b.K {
			cur = k
			e := &b.V[i]
			t := at(e)
			if t < m || t == future {
				late(t, m)
			}
			end := add(t, gap)
			n, v, added := s.table.PutIndex(k, hs[i])
			j := 0
			if added {
				v.first = session[A]{t, end, init()}
				step(&v.first.acc, e)
			} else {
				j = s.put(v, t, end, e, gone)
			}
			if added || v.first.to < v.due {
				s.ends.Add(n, v)
			}
			if r.shows {
				x := v.at(j)
				r.changed(key(k, x.from, x.to), x.acc)
			}
		}
		r.show()
	})
	marks.Follow(func(now int64) {
		op.Loc.At = op.Index
		s.ends.Until(now, func(i uint32, k K, v *visits[A]) {
			r.close(key(k, v.first.from, v.first.to), v.first.acc)
			if len(v.more) == 0 {
				s.table.Delete(k, hash.Hash(k))
				return
			}
			s.table.Change(i)
			v.remove(0)
			s.ends.Add(i, v)
		})
		r.push()
		advance(now)
	})
	return r.closed, r.open
}

// visitsCodec returns the codec of the sessions of a key.
func visitsCodec[A any](op *engine.Op) codec.Of[visits[A]] {
	acc := state.Plain[A](op)
	save := func(dst []byte, c codec.Codec, x *session[A]) ([]byte, error) {
		return acc.Save(binary.AppendVarint(binary.AppendVarint(dst, x.from), x.to), c, &x.acc)
	}
	load := func(d *codec.Decoder, c codec.Codec) (x session[A]) {
		x.from, x.to = d.Int(), d.Int()
		acc.Load(d, c, &x.acc)
		return x
	}
	return codec.Of[visits[A]]{
		Kind: "sessions " + acc.Kind,
		Save: func(dst []byte, c codec.Codec, x *visits[A]) (_ []byte, err error) {
			dst, err = save(binary.AppendUvarint(dst, uint64(len(x.more))), c, &x.first)
			for i := 0; i < len(x.more) && err == nil; i++ {
				dst, err = save(dst, c, &x.more[i])
			}
			return dst, err
		},
		Load: func(d *codec.Decoder, c codec.Codec, x *visits[A]) {
			n := d.Uint()
			*x = visits[A]{first: load(d, c)}
			for ; n > 0 && d.Err == nil; n-- {
				x.more = append(x.more, load(d, c))
			}
		},
	}
}
