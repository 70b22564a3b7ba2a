package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// loadLatest builds the flow and loads the last snapshot of a history. If that is damaged, it loads the one before,
// provided that what follows it is stored; it then changes h to the history since that snapshot.
func (o *owner) loadLatest(ctx context.Context, h *journal.History) error {
	if h.Snapshot == nil {
		return o.loadSnapshot(ctx, h, nil)
	}
	last, before, err := lastTwo(h.Snapshot)
	if err != nil {
		return o.damaged("its snapshot: %v", err)
	}
	if err = o.loadSnapshot(ctx, h, last); err == nil || !errors.As(err, new(*DamagedError)) {
		return err
	}
	if e := o.isLatest(ctx); e != nil {
		return e
	}
	if len(before) == 0 {
		return err
	}
	older, e := o.since(ctx, h, before)
	if e == nil {
		o.graph.Fail(ErrStopped)
		e = o.loadSnapshot(ctx, older, before)
	}
	if e != nil {
		return fmt.Errorf("%w; the snapshot before it cannot be used: %v", err, e)
	}
	o.opts.Logger.Warn("the snapshot before the last one is used", "partition", o.partition, "error", err)
	*h = *older
	return nil
}

// isLatest returns [journal.ErrPurged] if another owner has saved a snapshot since the history was read: the
// pieces of the older snapshot may be gone.
func (o *owner) isLatest(ctx context.Context) error {
	now, err := o.log.Restore(ctx, o.partition)
	if err == nil && now.At != o.stored.at {
		err = fmt.Errorf("%w: there is another snapshot", journal.ErrPurged)
	}
	return err
}

// since returns the history since the snapshot before its last one.
func (o *owner) since(ctx context.Context, h *journal.History, before []byte) (*journal.History, error) {
	s, err := decodeSnapshot(o.of, before)
	if err != nil {
		return nil, err
	}
	records, err := o.log.Read(ctx, o.partition, max(s.taken, 1)-1)
	if err != nil {
		return nil, err
	}
	records.Close()
	older := *h
	older.At = s.fence
	older.Steps, err = stepsSince(ctx, o.log, o.partition, h, s.fence)
	return &older, err
}

// stepsSince returns the steps of a history after a fence, which may be before its snapshot. If it returns an
// error, it also returns the steps before the first one that cannot be read.
func stepsSince(ctx context.Context, log journal.Log, partition int, h *journal.History, fence uint64) (all []journal.Step, err error) {
	if fence < h.At {
		steps, err := log.Steps(ctx, partition, fence)
		if err != nil {
			return nil, err
		}
		defer steps.Close()
		for at := fence; at < h.At; {
			step, err := steps.Next(ctx)
			if err != nil {
				return all, err
			}
			at, all = step.Fence, append(all, step)
		}
	}
	for _, step := range h.Steps {
		if step.Fence > fence {
			all = append(all, step)
		}
	}
	return all, nil
}

// loadSnapshot builds the flow, and loads an encoded snapshot of the history unless data is nil.
func (o *owner) loadSnapshot(ctx context.Context, h *journal.History, data []byte) error {
	if err := o.construct(); err != nil {
		return err
	}
	if data == nil {
		return o.fit(h, nil)
	}
	s, err := decodeSnapshot(o.of, data)
	if err != nil {
		return o.damaged("its snapshot: %v", err)
	}
	if err := o.fit(h, &s); err != nil {
		return err
	}
	return o.load(ctx, data, s)
}

// readRun returns the pieces of a run. A server that has just become leader may not have all of it yet, so in a
// log that processes share, a run is read again before it counts as damaged.
func (o *owner) readRun(ctx context.Context, r run) ([][]byte, error) {
	for try := 1; ; try++ {
		pieces, damage, err := readRun(ctx, o.log, o.partition, o.of, r)
		if err != nil || damage == "" {
			return pieces, err
		}
		if err := o.isLatest(ctx); err != nil {
			return nil, err
		}
		if try == restoresBehind || o.shared == nil {
			return nil, o.damaged("%s", damage)
		}
		if pauseBehind(ctx); ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// load loads a snapshot into a flow that has made no step.
func (o *owner) load(ctx context.Context, data []byte, s snapshot) error {
	o.executor.Use(o.program.numbers, o.program.loads)
	loader, err := o.executor.Loader(s.clock, o.program.other)
	o.executor.Use(o.program.numbers, o.program.reads)
	if err != nil {
		return err
	}
	sizes := make(map[uint64]int)
	for _, r := range slices.Backward(s.runs) {
		pieces, err := o.readRun(ctx, r)
		if err != nil {
			return err
		}
		for _, p := range slices.Backward(pieces) {
			if err := loader.Piece(r.number, p); err != nil {
				return o.unloadable(fmt.Sprintf(", in pieces %d to %d", r.first, r.last), err)
			}
		}
		sizes[r.number] = int(r.bytes)
	}
	if err := loader.End(); err != nil {
		return o.unloadable("", err)
	}
	o.cutter = loader.Cutter(sizes)
	o.stored.runs, o.stored.last = slices.Clone(s.runs), lastOf(data, &s)
	o.last = s
	o.last.shape, o.last.runs = "", nil
	return nil
}
