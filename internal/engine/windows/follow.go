// Package windows contains the operators of event time. They follow the marks of the streams that they read, see package mark,
// and emit when a mark has advanced.
//
// An operator here is generic in its events: at returns the time of one. It remembers what its mark does not cover yet, using the
// constructors of package state, and forgets the rest. Start reading at [Stamp], which makes events, and at [Fold].
package windows

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/mark"
	"github.com/millrace/millrace/internal/engine/state"
)

// The ends of time.
const (
	past   = mark.Past
	future = mark.Future
)

// add returns a time that is d later. It does not wrap around.
func add(t, d int64) int64 {
	s := t + d
	switch {
	case d > 0 && s < t:
		return future
	case d < 0 && s > t:
		return past
	}
	return s
}

// over returns the last time that is at most d after t, and always before the end of time.
func over(t, d int64) int64 { return min(add(t, d), future-1) }

// follow returns the mark of an operator's input. It panics if there is none.
func follow(op *engine.Op, h *engine.Head) *mark.Mark {
	if h.Region != nil {
		engine.Misuse(op.Name, "the events are in %s, where nothing comes later", h.Region)
	}
	if h.Mark == nil {
		engine.Misuse(op.Name, "nobody knows how far the events are: %s: stamp them behind it, with window.Stamp", lost(h.Op))
	}
	op.Follows(h.Mark)
	return h.Mark
}

// lost describes where the mark of a stream made by op was lost: the nearest place whose output is a record of its own.
func lost(op *engine.Op) string {
	next := []*engine.Op{op}
	for i := 0; i < len(next); i++ {
		x := next[i]
		if x == nil {
			continue
		}
		if r := x.Slice(); r != nil {
			return fmt.Sprintf("they come out of %s, when it is cut", r)
		}
		ins := x.Inputs()
		if x.Delays() || len(ins) == 0 || ins[0].Loc != x.Loc {
			return fmt.Sprintf("they come from %s, when it gives them", x)
		}
		if len(ins) > 1 {
			return fmt.Sprintf("%s may hold them, or not all that it reads has a mark", x)
		}
		next = append(next, ins...)
	}
	return "they were never stamped"
}

// own returns the mark of what op makes of streams with the marks from.
func own(op *engine.Op, from ...*mark.Mark) *mark.Mark {
	return state.NewMark(op, from...)
}

// late panics because of an event that is late, as if the function that changed its time had panicked.
func late(t, m int64) {
	panic(fmt.Sprintf("an event has the time %s, and the mark of its stream is %s: an event keeps the time that window.Stamp gave it", text(t), text(m)))
}

func text(t int64) string {
	switch t {
	case past:
		return "window.Past"
	case future:
		return "window.Future"
	}
	return time.Unix(0, t).UTC().Format(time.RFC3339Nano)
}
