package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
	"github.com/millrace/millrace/internal/engine/identity"
)

// A walk replays the steps of a partition one by one, in a graph of its own. It begins at the nearest of the
// snapshot, a cached image and the first step, and caches images for later walks.
type walk struct {
	h         *History
	o         *owner
	partition int
	kept      *journal.History
	records   *source
	steps     journal.StepReader
	again     *stepReplay
	ahead     journal.Step // read but not replayed yet; its fence is 0 if there is none

	at            uint64 // the last step that was replayed or loaded
	since         int    // steps since the last image
	imageInterval int    // steps between two images

	watch watch
	made  *step                  // the last step, unless it was loaded
	ran   []dataflow.SliceStatus // how often slices had run before it
}

// last returns the stored history of a partition, and an error if its last step is before step to.
func (h *History) last(ctx context.Context, partition int, to uint64) (*journal.History, error) {
	if n := h.Partitions(); partition < 0 || partition >= n {
		return nil, fmt.Errorf("%w: there is no partition %d, only %d of them", ErrNoStep, partition, n)
	}
	kept, err := h.core.log.Restore(ctx, partition)
	switch {
	case err != nil:
		return nil, err
	case kept.Fence == 0:
		return nil, fmt.Errorf("%w: partition %d has no history", ErrNoStep, partition)
	case to > kept.Fence:
		return nil, fmt.Errorf("%w: partition %d has no step %d: its last one is %d", ErrNoStep, partition, to, kept.Fence)
	}
	return kept, nil
}

// walk returns a walk that has not begun, starting from the nearest place at or before step from, to reach step
// to.
func (h *History) walk(ctx context.Context, partition int, kept *journal.History, from, to uint64) (*walk, error) {
	usage, err := h.core.log.Usage(ctx, partition)
	if err != nil {
		return nil, err
	}
	w := &walk{h: h, partition: partition, kept: kept, imageInterval: max(minImageInterval, int(usage.Steps)/mostImages)}
	w.o = &owner{core: h.core, partition: partition, of: h.core.originOf(partition), recorder: &w.watch}
	if err := w.begin(ctx, from, to); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *walk) begin(ctx context.Context, from, to uint64) (err error) {
	h, o, kept := w.h, w.o, w.kept
	h.mu.Lock()
	im := h.images.before(w.partition, from)
	h.mu.Unlock()
	switch {
	case kept.Snapshot != nil && kept.At <= from && (im == nil || im.last.fence < kept.At):
		err = w.fromSnapshot(ctx)
	case im != nil:
		err = w.fromImage(ctx, im)
	default:
		err = w.fromFirst(ctx, to)
	}
	if err != nil {
		return err
	}
	if o.cutter == nil {
		o.cutter = o.executor.Cutter()
	}
	reader, err := o.log.Read(ctx, w.partition, max(o.last.taken, 1)-1)
	if err != nil {
		return err
	}
	w.records = &source{reader: reader, of: o.of, max: o.opts.StepBytes}
	if err := o.rejoin(ctx, w.records); err != nil {
		return err
	}
	w.again = o.replayFrom(w.at, w.records)
	return nil
}

// fromSnapshot begins with the snapshot, or with the one before it if that is damaged.
func (w *walk) fromSnapshot(ctx context.Context) (err error) {
	w.o.stored.at = w.kept.At
	if err := w.o.loadLatest(ctx, w.kept); err != nil {
		return err
	}
	w.at = w.kept.At
	w.steps, err = w.h.core.log.Steps(ctx, w.partition, w.at)
	return err
}

func (w *walk) fromImage(ctx context.Context, im *image) error {
	last, err := w.shape()
	if err != nil {
		return err
	}
	if err := w.o.construct(); err != nil {
		return err
	}
	if err := w.o.fitShapes(im.made, last, w.kept.Fence); err != nil {
		return err
	}
	if err := w.o.loadImage(im); err != nil {
		return err
	}
	w.at = im.last.fence
	w.steps, err = w.h.core.log.Steps(ctx, w.partition, w.at)
	return err
}

// fromFirst begins with the first step, which must still be stored.
func (w *walk) fromFirst(ctx context.Context, to uint64) (err error) {
	if w.steps, err = w.h.core.log.Steps(ctx, w.partition, 0); err != nil {
		return err
	}
	if w.ahead, err = w.steps.Next(ctx); err != nil {
		return err
	}
	first, err := decodeStep(w.o.of, w.ahead.Data)
	if err != nil {
		return w.o.damaged("step %d: %v", w.ahead.Fence, err)
	}
	if !first.begin {
		return fmt.Errorf("%w: step %d of partition %d is before the snapshot, and the beginning of the history is gone: keep it with Options.KeepFor = durable.Forever", ErrNoStep, to, w.partition)
	}
	if to < w.ahead.Fence {
		return fmt.Errorf("%w: partition %d has no step %d: its first one is %d", ErrNoStep, w.partition, to, w.ahead.Fence)
	}
	saved, err := parseShape(first.shape)
	if err != nil {
		return w.o.damaged("step %d: %v", w.ahead.Fence, err)
	}
	if err := w.o.construct(); err != nil {
		return err
	}
	last, err := w.shape()
	if err != nil {
		return err
	}
	if last == nil {
		last = saved
	}
	return w.o.fitShapes(saved, last, w.kept.Fence)
}

// ErrNoStep says that a history does not have a step or a partition, or no longer has it.
var ErrNoStep = errors.New("durable: there is no such step")

// next reads the next step, which must exist.
func (w *walk) next(ctx context.Context) (s journal.Step, err error) {
	if s = w.ahead; s.Fence != 0 {
		w.ahead = journal.Step{}
		return s, nil
	}
	return w.steps.Next(ctx)
}

// to replays up to the last step that is not after step number to. It notes what that step took and which
// slices it cut.
func (w *walk) to(ctx context.Context, to uint64) error {
	to = min(to, w.kept.Fence)
	for w.at < to {
		if ctx.Err() != nil {
			return errors.Join(context.Cause(ctx), w.image())
		}
		s, err := w.next(ctx)
		if err != nil {
			return err
		}
		if s.Fence > to {
			w.ahead = s
			break
		}
		last := s.Fence == to
		if !last {
			if w.ahead, err = w.steps.Next(ctx); err != nil {
				return err
			}
			last = w.ahead.Fence > to
		}
		if w.watch.on = last; last {
			w.watch.taken, w.ran = nil, w.slices()
		}
		if err := w.step(ctx, s); err != nil {
			return err
		}
	}
	w.watch.on = false
	if w.since >= minImageInterval/8 { // a reader of one step often reads its neighbors
		return w.image()
	}
	return nil
}

func (w *walk) step(ctx context.Context, s journal.Step) error {
	if err := w.again.step(ctx, s); err != nil {
		return err
	}
	if w.watch.on {
		was, err := decodeStep(w.o.of, s.Data)
		if err != nil {
			return err
		}
		w.made = &was
	}
	w.at = s.Fence
	if w.since++; w.since >= w.imageInterval {
		return w.image()
	}
	return nil
}

// image caches an image of the current state.
func (w *walk) image() error {
	if w.since == 0 {
		return nil
	}
	im, err := w.o.image(w.at)
	if err != nil || im == nil {
		return err
	}
	w.since = 0
	w.h.mu.Lock()
	w.h.images.add(w.partition, im)
	w.h.mu.Unlock()
	return nil
}

// slices returns how often slices have run.
func (w *walk) slices() []dataflow.SliceStatus {
	st := w.o.executor.Status()
	return w.o.executor.Report(&st).(dataflow.LocationStatus).Slices
}

// shape returns the shape of the program that made the last step.
func (w *walk) shape() (*identity.Shape, error) {
	var begins *snapshot
	if w.kept.Snapshot != nil {
		s, err := newest(w.o.of, w.kept.Snapshot)
		if err != nil {
			return nil, w.o.damaged("its snapshot: %v", err)
		}
		begins = &s
	}
	_, last, err := shapesOf(w.o.of, w.kept, begins)
	if err != nil {
		return nil, w.o.damaged("%v", err)
	}
	return last, nil
}

func (w *walk) close() {
	if w.o.graph != nil {
		w.o.graph.Fail(ErrStopped)
	}
	if w.records != nil {
		w.records.close()
	}
	if w.steps != nil {
		w.steps.Close()
	}
}

// walkTo returns a walk that is at the last step that is not after step to. It replays that step rather than
// loading it, if it can. Beside a running flow, it begins again if what it reads is purged meanwhile.
func (h *History) walkTo(ctx context.Context, partition int, to uint64) (*walk, error) {
	for try := 1; ; try++ {
		w, err := h.walkOnce(ctx, partition, to)
		if !errors.Is(err, journal.ErrPurged) || try == restoresBehind || ctx.Err() != nil {
			return w, err
		}
		h.mu.Lock()
		h.images.forget(partition)
		h.mu.Unlock()
	}
}

func (h *History) walkOnce(ctx context.Context, partition int, to uint64) (*walk, error) {
	kept, err := h.last(ctx, partition, to)
	if err != nil {
		return nil, err
	}
	if to == 0 {
		to = kept.Fence
	}
	again := *kept
	w, err := h.walk(ctx, partition, &again, to-1, to)
	if errors.Is(err, ErrNoStep) {
		w, err = h.walk(ctx, partition, kept, to, to)
	}
	if err != nil {
		return nil, err
	}
	if err := w.to(ctx, to); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

// A watch records what a step takes.
type watch struct {
	on    bool
	taken []tookRecords
}

// A tookRecords is the records taken from one input.
type tookRecords struct {
	op      int32
	n       int
	records any // see [engine.Input].CopyTaken
}

// Begin implements [engine.StepRecorder].
func (*watch) Begin(*engine.Graph) {}

// Taken implements [engine.StepRecorder].
func (x *watch) Taken(s *engine.Location, p *engine.Plan) {
	if !x.on {
		return
	}
	at := make(map[int32]int)
	for _, t := range p.Take {
		x.taken = append(x.taken, tookRecords{t.Op, t.N, s.Inputs[t.Op].CopyTaken(at[t.Op], t.N)})
		at[t.Op] += t.N
	}
}

// Made implements [engine.StepRecorder].
func (*watch) Made(*engine.Location) int { return 0 }
