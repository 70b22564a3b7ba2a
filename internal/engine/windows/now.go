package windows

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/mark"
	"github.com/millrace/millrace/internal/engine/state"
)

// A nowStamp gives elements the time at which they are taken. The mark is at the time of the last element, or at the last
// multiple of every that the wall clock has passed since.
type nowStamp struct {
	engine.Tiring
	op    *engine.Op
	every int64
	due   *int64 // when the mark advances by itself, in the time of the location
	mark  *mark.Mark
}

func newNowStamp(op *engine.Op, h *engine.Head, every int64) *nowStamp {
	s := &nowStamp{op: op, every: every, due: state.NewVar(engine.Lasting(op), engine.NoDeadline), mark: own(op)}
	loc := h.Loc
	loc.Timed(s, op)
	op.Clocked()
	loc.Starts.AtEnd(func() { *s.due, loc.Rearm = s.after(0), true })
	engine.AtEnd(op, func() { s.mark.Advance(future) })
	return s
}

// now returns the time of an element that is taken now. An overdue timer fires at the time of its deadline, which may be before
// that of elements taken meanwhile, so the result is never before the mark.
func (s *nowStamp) now() int64 { return max(s.op.Loc.WallClock(), s.mark.Now()) }

// reach moves the mark to t, the time at which elements were taken.
func (s *nowStamp) reach(t int64) {
	if now := t - s.op.Loc.Origin(); now >= *s.due {
		*s.due = s.after(now)
	}
	s.mark.Advance(t)
}

// after returns the time of the location at which the wall clock reaches the next multiple of every.
func (s *nowStamp) after(now int64) int64 {
	return add(now, s.every-modulo(s.op.Loc.Origin()+now, s.every))
}

// Next implements [engine.TimerQueue].
func (s *nowStamp) Next() (int64, bool) {
	if s.Tired() || s.mark.Now() == future {
		return engine.NoDeadline, false
	}
	return *s.due, *s.due != engine.NoDeadline
}

// Skip implements [engine.TimerQueue]: if several multiples have passed, the mark goes to the last.
func (s *nowStamp) Skip(now int64) {
	if *s.due <= now {
		*s.due += (now - *s.due) / s.every * s.every
		s.OnceMore()
	}
}

// Expire implements [engine.TimerQueue].
func (s *nowStamp) Expire(now int64) {
	s.Fired()
	s.op.Loc.At = s.op.Index
	s.reach(max(s.op.Loc.Origin()+now, s.mark.Now()))
}

// Running implements [engine.TimerQueue].
func (s *nowStamp) Running() int { return 1 }

// Idle returns true: nothing is lost if the flow ends first, because the end closes what is open.
func (s *nowStamp) Idle() bool { return true }

// StampNow returns the elements of in as events with the time at which they are taken.
func StampNow[T, E any](in *engine.Node[T], op *engine.Op, event func(int64, T) E, every int64) *engine.Node[E] {
	h := engine.Derived(op, in)
	s := newNowStamp(op, &h, every)
	h.Mark = s.mark
	out := engine.NewNode[E](h)
	var events []E
	op.Scratch(&events)
	in.Consume(&engine.Consumer[T]{
		Push: func(batch []T) {
			op.Loc.At = op.Index
			now := s.now()
			events = engine.Resize(events, len(batch))
			for i, x := range batch {
				events[i] = event(now, x)
			}
			out.Push(events)
			s.reach(now)
		},
		One: func(x T) {
			op.Loc.At = op.Index
			now := s.now()
			out.One(event(now, x))
			s.reach(now)
		},
	})
	return out
}

// StampNowKeyed is [StampNow] for keyed data, with one mark for all keys.
func StampNowKeyed[K comparable, V, E any](in *engine.KeyedNode[K, V], op *engine.Op, event func(int64, V) E, every int64) *engine.KeyedNode[K, E] {
	h := engine.Derived(op, in)
	s := newNowStamp(op, &h, every)
	h.Mark = s.mark
	out := engine.NewKeyedNode[K, E](h)
	var events engine.Columns[K, E]
	var b engine.Batch[K, E]
	op.Holds(&events)
	op.Scratch(&b)
	in.To(func(batch *engine.Batch[K, V]) {
		op.Loc.At = op.Index
		now := s.now()
		for i, k := range batch.K {
			engine.AppendEntry(&events, false, k, event(now, batch.V[i]), 0)
		}
		engine.PushEntries(out, events, &b)
		engine.ClearEntries(&events)
		s.reach(now)
	})
	return out
}
