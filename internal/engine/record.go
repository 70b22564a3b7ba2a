package engine

import (
	"fmt"
	"sync"
)

// A Recording is the history of a run: for each step what was taken, in order, and
// the time it read. Given the same graph it determines everything.
type Recording struct {
	mu    sync.Mutex
	steps []recordedStep
}

type recordedStep struct {
	site  int // number of the site
	now   int64
	fired bool // timers that were due at now
	items []recordedItem
}

// A recordedItem is a stretch of records of one inlet.
type recordedItem struct {
	op   int32 // the inlet's operator
	n    int
	data any // what the inlet's replay understands
}

// Len returns the number of steps.
func (r *Recording) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.steps)
}

// recordItem notes that n records are about to be pushed.
func (s *Site) recordItem(op *Op, n int, data any) {
	s.recorded.items = append(s.recorded.items, recordedItem{op.index, n, data})
}

// recordStep notes the step that is ending.
func (s *Site) recordStep() {
	rec := s.recording
	s.recorded.now, s.recorded.site = s.now, s.number
	if len(s.recorded.items) > 0 || s.recorded.fired {
		rec.mu.Lock()
		rec.steps = append(rec.steps, s.recorded)
		rec.mu.Unlock()
	}
	s.recorded = recordedStep{}
}

// A replayer is an inlet that can push what was recorded of it.
type replayer interface{ replay(data any) error }

// replayStep makes the next step of a recording, and reports whether there was one.
func (g *Graph) replayStep() bool {
	rec := g.set.Replay
	rec.mu.Lock()
	defer rec.mu.Unlock()
	if g.replayed == len(rec.steps) {
		return false
	}
	step := rec.steps[g.replayed]
	g.replayed++
	if step.site >= len(g.sites) {
		g.Fail(fmt.Errorf("dataflow: step %d of the recording is of a location that this flow does not have", g.replayed))
		return false
	}
	s := g.sites[step.site]
	s.drive(func() {
		s.now = step.now
		g.virtual = max(g.virtual, step.now)
		if step.fired {
			s.fireUntil(step.now)
		}
		for _, item := range step.items {
			if err := s.replayItem(item); err != nil {
				g.Fail(fmt.Errorf("dataflow: step %d of the recording does not fit this flow: %w", g.replayed, err))
				return
			}
		}
		for _, r := range s.regions {
			if r.news {
				s.observeRun(r)
			}
		}
	})
	return true
}

func (s *Site) replayItem(item recordedItem) error {
	for _, in := range s.replayers {
		if in.op.index == item.op {
			s.note(func() string { return fmt.Sprintf("take %d recorded of %s", item.n, in.op) })
			return in.in.replay(item.data)
		}
	}
	return fmt.Errorf("operator %d is no input at %s", item.op, s.name)
}

// A replayInlet is an inlet and the operator it is known by.
type replayInlet struct {
	op *Op
	in replayer
}

func (in *Inlet[T]) replay(data any) error {
	xs, ok := data.([]T)
	if !ok {
		return fmt.Errorf("%s takes %T, the recording has %T", in.op, xs, data)
	}
	pushBlocks(in.node, xs)
	return nil
}

func (in *KInlet[K, V]) replay(data any) error {
	c, ok := data.(columns[K, V])
	if !ok {
		return fmt.Errorf("%s takes %T, the recording has %T", in.op, c, data)
	}
	c.pushBlocks(in.node, &in.batch)
	return nil
}
