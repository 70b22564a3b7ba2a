package durable

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// restore brings the partition to its last step, and returns a reader of what came in
// since.
func (o *owner) restore(ctx context.Context) (journal.Reader, error) {
	began := time.Now()
	h, err := o.kept(ctx)
	if err != nil {
		return nil, err
	}
	source, err := o.follow(ctx, h)
	if err != nil {
		return nil, err
	}
	o.savedAt = time.Now()
	o.startClock()
	if h.Fence == 0 {
		if err := o.begin(ctx, o.leader.Shape()); err != nil {
			source.Close()
			return nil, err
		}
	}
	o.metrics.restored(time.Since(began))
	return source, nil
}

// follow brings a new flow to where a history ends.
func (o *owner) follow(ctx context.Context, h *journal.History) (*source, error) {
	if err := o.construct(); err != nil {
		return nil, err
	}
	o.fence = h.Fence
	shape := o.leader.Shape()
	if h.Snapshot != nil {
		var err error
		if o.last, err = o.load(h.Snapshot, shape); err != nil {
			return nil, err
		}
	}
	reader, err := o.log.Read(ctx, o.partition, o.last.taken)
	if err != nil {
		return nil, err
	}
	source := &source{reader: reader, max: o.opts.StepBytes}
	if err := o.replay(ctx, h, source, shape); err != nil {
		reader.Close()
		return nil, err
	}
	return source, nil
}

// How often, and after which pause, a history is read again that does not fit together:
// another owner may have made a snapshot meanwhile, or a server has only just come to lead.
const (
	restoresBehind = 10
	readAgain      = 100 * time.Millisecond
)

func pauseBehind(ctx context.Context) {
	select {
	case <-time.After(readAgain):
	case <-ctx.Done():
	}
}

// kept returns the history of the partition. Records that end before what the steps have
// taken are an older copy or were lost: what was sent next would be acknowledged at positions
// that count as taken, and would have no effect.
func (o *owner) kept(ctx context.Context) (*journal.History, error) {
	for try := 1; ; try++ {
		h, err := o.log.Restore(ctx, o.partition)
		if err != nil {
			return nil, err
		}
		taken, err := takenBy(h)
		switch {
		case err != nil:
			return nil, o.damaged("%v", err)
		case taken <= h.End:
			return h, nil
		case try == restoresBehind || o.shared == nil:
			return nil, o.damaged("step %d took records up to message %d, and they end at %d: they are an older copy, or were lost at the end", h.Fence, taken, h.End)
		}
		if pauseBehind(ctx); ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// takenBy returns how far the steps of a history have taken records.
func takenBy(h *journal.History) (uint64, error) {
	if n := len(h.Steps); n > 0 {
		s, err := decodeStep(h.Steps[n-1].Data)
		return s.taken, err
	}
	if h.Snapshot == nil {
		return 0, nil
	}
	s, err := decodeSnapshot(h.Snapshot)
	return s.taken, err
}

// damaged is the error of a partition whose history cannot be restored.
func (o *owner) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: the history of %s in %s: partition %d: %s; put back what was lost, or all of the history from one backup, or begin a new one elsewhere",
		ErrDamaged, o.opts.Name, o.opts.Log, o.partition, fmt.Sprintf(format, args...))
}

// load gives a flow that has made no step the state of a snapshot.
func (o *owner) load(data []byte, shape string) (snapshot, error) {
	s, err := decodeSnapshot(data)
	if err != nil {
		return s, o.damaged("its snapshot: %v", err)
	}
	became, err := o.migration(s.shape, shape)
	if err != nil {
		return s, err
	}
	if err = o.leader.Load(s.state, became); err != nil && became == nil {
		err = o.damaged("its snapshot: %v", err)
	}
	s.state, s.shape = nil, shape
	return s, err
}

// replay makes the steps that were committed since the snapshot again.
func (o *owner) replay(ctx context.Context, h *journal.History, from *source, shape string) error {
	for _, committed := range h.Steps {
		was, err := decodeStep(committed.Data)
		if err != nil {
			return o.damaged("step %d: %v", committed.Fence, err)
		}
		var e logdriven.Emission
		if was.begin {
			if was.shape != shape {
				return changedError(was.shape, shape)
			}
			o.last.origin = was.origin
			e, err = o.leader.Begin()
		} else {
			var records [][]byte
			if records, err = from.until(ctx, o.last.taken, was.taken); err != nil {
				return fmt.Errorf("step %d: %w", committed.Fence, err)
			}
			e, err = o.leader.Step(was.now, records)
		}
		if err != nil {
			return err
		}
		if !bytes.Equal(e.Outputs, was.Outputs) {
			return &DivergedError{o.partition, committed.Fence, was.Outputs, e.Outputs}
		}
		o.last.taken, o.last.now = was.taken, was.now
		o.last.refusals.add(&was)
		o.unsaved += len(committed.Data)
		o.metrics.replayed.Add(1)
	}
	return nil
}
