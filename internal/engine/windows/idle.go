package windows

import (
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/mark"
	"github.com/millrace/millrace/internal/engine/state"
)

// A silence moves the mark of a stream when nothing has come to the inputs before it for a while. It maintains:
//
//  1. the mark is not before that of the stream, unless it is silent,
//  2. a silent mark continues at the greatest of the marks that are made of it, so none is ahead of it; see [mark.Mark.Behind].
type silence struct {
	engine.Tiring
	op       *engine.Op
	quiet    int64
	since    *int64     // start of the quiet period
	due      *int64     // end of the quiet period; 0 before it begins to listen
	heard    *int64     // when the first mark came, 0 before that; nil if the stream does not come from partitions
	in, mark *mark.Mark // of the input, and of the result
}

// Idle returns the events of in, with a mark that advances by quiet whenever nothing has come for that long, and separately the
// events that are late because of that. While the mark of in has not moved yet, the mark becomes silent instead.
func Idle[E any](in *engine.Node[E], op *engine.Op, at func(*E) int64, quiet int64) (still, tardy *engine.Node[E]) {
	marks := follow(op, &in.Head)
	h := engine.Derived(op, in)
	memory := engine.Lasting(op)
	s := &silence{op: op, quiet: quiet, since: state.NewVar(memory, int64(0)), due: state.NewVar(memory, int64(0)), in: marks, mark: own(op, marks)}
	h.Mark = s.mark
	still = engine.NewNode[E](h)
	h.Mark = nil
	tardy = engine.NewNode[E](h)
	loc := h.Loc
	loc.Timed(s, op)
	op.Clocked()
	loc.Listen(op, s.hear)
	loc.Starts.AtEnd(func() {
		loc.Rearm = true
		if !loc.Graph.Kept() { // otherwise the operator may be new, and the history old
			*s.due = quiet
		}
	})
	var intime, out []E
	op.Scratch(&intime, &out)
	in.To(func(batch []E) {
		loc.At = op.Index
		s.hear(loc.Clock()) // events from timers come from no input
		from, m := s.from(), marks.Now()
		intime, out = intime[:0], out[:0]
		for i := range batch {
			t := at(&batch[i])
			if t < m || never(t) {
				late(t, m)
			}
			if t < from {
				out = append(out, batch[i])
			} else {
				intime = append(intime, batch[i])
			}
		}
		if len(intime) > 0 {
			still.Push(intime)
		}
		if len(out) > 0 {
			tardy.Push(out)
		}
		if len(intime) > 0 && s.mark.Now() == mark.Silent {
			s.mark.Advance(from)
		}
	})
	if marks.FollowHeard(func(now int64) { s.overlook(loc.Clock(), now) }) {
		s.heard = state.NewVar(memory, int64(0))
	}
	marks.Follow(s.advance)
	return still, tardy
}

// from returns the time before which an event is late.
func (s *silence) from() int64 {
	now := s.mark.Now()
	if now == mark.Silent {
		return max(now, s.mark.Behind())
	}
	return now
}

// advance moves the mark to a later time. A silent mark stays silent while marks made of it are ahead.
func (s *silence) advance(to int64) {
	if to >= s.from() {
		s.mark.Advance(to)
	}
}

// overlook moves the mark to that of the partitions from which one has come, once it has been quiet for long enough after the
// first one. So a partition without keys does not hold it back.
func (s *silence) overlook(now, to int64) {
	switch {
	case to <= mark.Silent:
	case *s.heard == 0:
		*s.heard = max(now, 1)
	case s.patient(now):
		s.advance(to)
	}
}

// patient reports whether partitions from which nothing has come were waited for long enough.
func (s *silence) patient(now int64) bool {
	return s.heard != nil && *s.heard != 0 && now-*s.heard >= s.quiet
}

// hear starts a quiet period at now.
func (s *silence) hear(now int64) {
	*s.since, *s.due = now, add(now, s.quiet)
}

// Skip implements [engine.TimerQueue]: several quiet periods that have passed end together, at the last.
func (s *silence) Skip(now int64) {
	switch {
	case *s.due <= 0:
		s.hear(now)
	case *s.due <= now:
		*s.due += (now - *s.due) / s.quiet * s.quiet
	}
}

// Expire implements [engine.TimerQueue].
func (s *silence) Expire(now int64) {
	s.Fired()
	s.op.Loc.At = s.op.Index
	passed := now - *s.since
	*s.since, *s.due = now, add(now, s.quiet)
	m := max(s.mark.Now(), s.in.Now())
	if s.patient(now) {
		m = max(m, s.in.Heard())
	}
	if m > mark.Silent {
		s.advance(add(m, passed))
	} else {
		s.mark.Advance(mark.Silent)
	}
}

// Next implements [engine.TimerQueue]. After the end of time there is nothing to wait for.
func (s *silence) Next() (int64, bool) {
	if s.Tired() || s.mark.Now() == future {
		return engine.NoDeadline, false
	}
	return max(*s.due, 1), true
}

// Running implements [engine.TimerQueue].
func (s *silence) Running() int { return 1 }

// Idle returns true: nothing is lost if the flow ends before the quiet period does.
func (s *silence) Idle() bool { return true }
