package windows

import (
	"github.com/millrace/millrace/internal/digest"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/mark"
	"github.com/millrace/millrace/internal/engine/state"
)

// A Clock says how the mark of a stamped stream moves.
type Clock[T any] struct {
	Slack   int64                 // how much older than the newest element one may be
	Confirm int                   // how many elements have to be as new before the mark follows
	Says    func(T) (int64, bool) // if not nil, an element itself says how far the stream is
}

// A stamp decides which elements of a stream are late.
type stamp[T any] struct {
	Clock[T]
	mark   *mark.Mark
	newest *[]int64 // the newest times, a heap with the oldest of them first
}

func newStamp[T any](op *engine.Op, c Clock[T]) *stamp[T] {
	s := &stamp[T]{Clock: c, mark: own(op)}
	if s.Confirm > 1 {
		s.newest = state.NewVar[[]int64](engine.Lasting(op), nil)
	}
	return s
}

// next returns the mark after an element x that is in time, given its time t and the mark m before it. *newest holds the newest
// times, if they have to be confirmed.
func (c *Clock[T]) next(x T, t, m int64, newest *[]int64) int64 {
	to := m
	switch {
	case c.Says != nil:
		if said, ok := c.Says(x); ok {
			to = said
		}
	case c.Confirm <= 1:
		to = add(t, -c.Slack)
	default:
		if heap := *newest; len(heap) < c.Confirm {
			*newest = append(heap, t)
			up(*newest)
		} else if t > heap[0] {
			heap[0] = t
			down(heap)
		}
		if heap := *newest; len(heap) == c.Confirm {
			to = add(heap[0], -c.Slack)
		}
	}
	if to == mark.Silent { // it says no more than the mark past, because no event is at past
		return m
	}
	return max(m, to)
}

// up moves the last number of a heap into place.
func up(heap []int64) {
	for i := len(heap) - 1; i > 0 && heap[i] < heap[(i-1)/2]; i = (i - 1) / 2 {
		heap[i], heap[(i-1)/2] = heap[(i-1)/2], heap[i]
	}
}

// down moves the first number of a heap into place.
func down(heap []int64) {
	for i := 0; ; {
		least := i
		for j := 2*i + 1; j <= 2*i+2 && j < len(heap); j++ {
			if heap[j] < heap[least] {
				least = j
			}
		}
		if least == i {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

// never reports whether t is not the time of an event.
func never(t int64) bool { return t == past || t == future }

// Stamp returns the elements of in as events, separating those that are late: older than the mark at their turn. That is decided
// element by element, wherever a batch ends.
func Stamp[T, E any](in *engine.Node[T], op *engine.Op, at func(T) int64, event func(int64, T) E, c Clock[T]) (events, tardy *engine.Node[E]) {
	h := engine.Derived(op, in)
	s := newStamp(op, c)
	h.Mark = s.mark
	events = engine.NewNode[E](h)
	h.Mark = nil
	tardy = engine.NewNode[E](h)
	engine.AtEnd(op, func() { s.mark.Advance(future) })
	var intime, out []E
	op.Scratch(&intime, &out)
	in.Consume(&engine.Consumer[T]{
		Push: func(batch []T) {
			op.Loc.At = op.Index
			intime, out = intime[:0], out[:0]
			m := s.mark.Now()
			for _, x := range batch {
				t := at(x)
				if t < m || never(t) {
					out = append(out, event(t, x))
					continue
				}
				intime = append(intime, event(t, x))
				m = s.next(x, t, m, s.newest)
			}
			if len(intime) > 0 {
				events.Push(intime)
			}
			if len(out) > 0 {
				tardy.Push(out)
			}
			s.mark.Advance(m)
		},
		One: func(x T) {
			op.Loc.At = op.Index
			t, m := at(x), s.mark.Now()
			if t < m || never(t) {
				tardy.One(event(t, x))
				return
			}
			m = s.next(x, t, m, s.newest)
			events.One(event(t, x))
			s.mark.Advance(m)
		},
	})
	return events, tardy
}

// StampKeyed is [Stamp] for keyed data, with one mark for all keys. The order across keys matters: it decides which elements are
// late.
func StampKeyed[K comparable, V, E any](in *engine.KeyedNode[K, V], op *engine.Op, at func(V) int64, event func(int64, V) E, c Clock[V]) (events, tardy *engine.KeyedNode[K, E]) {
	engine.Permuted(&in.Head)
	h := engine.Derived(op, in)
	s := newStamp(op, c)
	h.Mark = s.mark
	events = engine.NewKeyedNode[K, E](h)
	h.Mark = nil
	tardy = engine.NewKeyedNode[K, E](h)
	engine.AtEnd(op, func() { s.mark.Advance(future) })
	var intime, out engine.Columns[K, E]
	var b engine.Batch[K, E]
	op.Holds(&intime, &out)
	op.Scratch(&b)
	watch := in.Loc.Graph.Settings.Watch
	in.To(func(batch *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		m := s.mark.Now()
		for i, k := range batch.K {
			x := batch.V[i]
			t := at(x)
			isLate := t < m || never(t)
			if watch != nil {
				watch.Observed(in.Loc.Name, engine.FirstObserver+uint64(op.Index)<<32^digest.Of(k), engine.ChainDigest(digest.Of(x), digest.Of(isLate)))
			}
			if isLate {
				engine.AppendEntry(&out, false, k, event(t, x), 0)
				continue
			}
			engine.AppendEntry(&intime, false, k, event(t, x), 0)
			m = s.next(x, t, m, s.newest)
		}
		engine.PushEntries(events, intime, &b)
		engine.ClearEntries(&intime)
		engine.PushEntries(tardy, out, &b)
		engine.ClearEntries(&out)
		s.mark.Advance(m)
	})
	return events, tardy
}
