package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
)

// A StepPlace says where a step is among the stored steps of a partition. Step numbers grow, but need not be
// consecutive.
type StepPlace struct {
	Number         uint64
	Index, Count   int    // the first stored step has index 1
	First, Last    uint64 // numbers of the first and the last stored step
	Previous, Next uint64 // numbers of the neighbors; zero at the ends
}

// Place returns the place of step number step, or of the last step before that number if there is none with it;
// zero stands for the last step of all. It returns an [ErrNoStep] if there is no such step. It reads steps
// without replaying them, and caches some places; if ctx ends first, the next call continues from there.
func (h *History) Place(ctx context.Context, partition int, step uint64) (StepPlace, error) {
	if ctx == nil {
		engine.NilContext("durable.History.Place")
	}
	for try := 1; ; try++ {
		place, err := h.place(ctx, partition, step)
		if !errors.Is(err, journal.ErrPurged) || try == restoresBehind || ctx.Err() != nil {
			return place, err
		}
		h.mu.Lock()
		h.marks[partition] = marks{}
		h.mu.Unlock()
	}
}

// mostMarks is how many places of a partition are cached.
const mostMarks = 1 << 12

// marks are places of steps, in order, about stride steps apart.
type marks struct {
	first  uint64 // the step with index 1 when they were recorded
	stride int
	all    []mark
}

type mark struct {
	step  uint64
	index int
}

// before returns the latest mark before a step.
func (x *marks) before(step uint64) (m mark) {
	for _, is := range x.all {
		if is.step >= step {
			break
		}
		m = is
	}
	return m
}

// note caches a place, unless it is too near to the last one.
func (x *marks) note(m mark) {
	last := mark{}
	if n := len(x.all); n > 0 {
		last = x.all[n-1]
	}
	if x.stride == 0 {
		x.stride = 64
	}
	if m.index < last.index+x.stride {
		return
	}
	if x.all = append(x.all, m); len(x.all) < mostMarks {
		return
	}
	x.stride *= 2
	kept := x.all[:0]
	for i, is := range x.all {
		if i%2 == 1 {
			kept = append(kept, is)
		}
	}
	x.all = kept
}

func (h *History) place(ctx context.Context, partition int, step uint64) (p StepPlace, err error) {
	kept, err := h.last(ctx, partition, step)
	if err != nil {
		return p, err
	}
	newest := step == 0
	if newest {
		step = kept.Fence
	}
	usage, err := h.core.log.Usage(ctx, partition)
	if err != nil {
		return p, err
	}
	if p.First, err = h.firstStep(ctx, partition); err != nil {
		return p, err
	}
	switch {
	case step >= p.First:
	case newest: // newer steps have replaced it
		return p, journal.ErrPurged
	default:
		return p, fmt.Errorf("%w: partition %d has no step %d: the first one that is kept is %d", ErrNoStep, partition, step, p.First)
	}
	h.mu.Lock()
	x := &h.marks[partition]
	if x.first != p.First { // some steps were purged meanwhile
		*x = marks{first: p.First}
	}
	at := x.before(step)
	if at.step > 0 {
		at = x.before(at.step) // so that the step before is read too
	}
	h.mu.Unlock()
	p.Last, p.Count = kept.Fence, int(usage.Steps)
	steps, err := h.core.log.Steps(ctx, partition, at.step)
	if err != nil {
		return p, err
	}
	defer steps.Close()
	p.Number, p.Index = at.step, at.index
	for p.Number < kept.Fence {
		if ctx.Err() != nil {
			return p, context.Cause(ctx)
		}
		s, err := steps.Next(ctx)
		if err != nil {
			return p, err
		}
		if s.Fence > step {
			p.Next = s.Fence
			break
		}
		p.Previous, p.Number, p.Index = p.Number, s.Fence, p.Index+1
		h.mu.Lock()
		if x.first == p.First {
			x.note(mark{p.Number, p.Index})
		}
		h.mu.Unlock()
	}
	p.Count = max(p.Count, p.Index)
	return p, nil
}

// firstStep returns the number of the first stored step of a partition that has steps.
func (h *History) firstStep(ctx context.Context, partition int) (uint64, error) {
	steps, err := h.core.log.Steps(ctx, partition, 0)
	if err != nil {
		return 0, err
	}
	defer steps.Close()
	s, err := steps.Next(ctx)
	return s.Fence, err
}
