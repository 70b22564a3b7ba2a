package durable

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A cut is a snapshot in progress: of the state as it was after one step, written while steps go on. An entry
// that is about to change is written first, so steps wait only for a small part of the work at a time. The
// owner encodes pieces, and a goroutine of the cut makes them durable.
type cut struct {
	ctx     context.Context
	cancel  context.CancelCauseFunc
	at      snapshot      // the step it is of
	behind  int           // bytes of history before it; they count as not covered if it is not made
	stopped time.Duration // the longest time that steps waited at a stretch
	bytes   int

	mu      sync.Mutex
	pieces  []logdriven.Piece // pieces to make durable
	whole   bool              // there will be no more
	wake    chan struct{}     // of capacity 1: there are more pieces
	written chan struct{}     // of capacity 1: there are fewer pieces
	done    chan struct{}     // closed when the snapshot is durable or has failed
	err     error             // why it failed
}

const (
	// maxCutPause bounds the time that steps wait for a cut at a stretch.
	maxCutPause = time.Millisecond
	// mostWaiting is how many pieces may wait to be made durable.
	mostWaiting = 32
)

// cutIfDue begins a snapshot if the history since the last one is large or old enough, or large enough in
// proportion to what a snapshot costs. When the new snapshot is durable, the history before the previous one is
// deleted.
//
// It returns an error if another owner has saved a snapshot, because the pieces that this owner relies on may be
// gone then.
func (o *owner) cutIfDue() error {
	if o.cut != nil {
		return nil
	}
	select {
	case <-o.before.done:
	default:
		return nil // the previous snapshot is not durable yet
	}
	if errors.Is(o.before.err, journal.ErrOvertaken) {
		return o.before.err
	}
	if o.stored.at == o.fence {
		return nil // the unsaved bytes belong to no step yet
	}
	if o.due(time.Since(o.savedAt)) {
		o.abortCut(o.beginCut(o.ctx))
	}
	return nil
}

// due reports whether there is enough history since the last snapshot. The age is that of the last attempt: a
// failed snapshot is retried, but not at once.
func (o *owner) due(age time.Duration) bool {
	behind, soon := o.behindLast(), o.opts.SnapshotAge/12
	if behind == 0 || o.before.err != nil && age < soon {
		return false
	}
	some := 64<<10 + 4*len(o.stored.last.data)
	return behind >= o.opts.SnapshotBytes || age >= o.opts.SnapshotAge || age >= soon && behind >= some
}

// behindLast returns how many bytes of history a restore would replay. It is called while no snapshot is being
// made.
func (o *owner) behindLast() int {
	if o.before.err != nil {
		return o.unsaved + o.before.behind
	}
	return o.unsaved
}

// beginCut begins a snapshot of the current state.
func (o *owner) beginCut(ctx context.Context) error {
	began := time.Now()
	if o.before.err != nil { // some of its pieces are missing
		o.cutter.Again()
	}
	o.covers()
	o.warnUntaken()
	c := &cut{at: o.last, wake: make(chan struct{}, 1), written: make(chan struct{}, 1), done: make(chan struct{})}
	c.at.shape, c.at.fence = o.program.numbers.Shape().String(), o.fence
	c.ctx, c.cancel = context.WithCancelCause(ctx)
	c.behind = o.behindLast()
	o.cut, o.before = c, c
	o.unsaved, o.savedAt = 0, began
	err := o.cutter.Begin(o.cleaning(ctx))
	c.stopped = time.Since(began)
	reserves := o.reserves
	o.reserves = 0
	o.saving.Go(func() {
		defer c.cancel(nil)
		c.err = o.persistCut(c)
		o.release(reserves)
		switch {
		case c.err == nil || o.ctx.Err() != nil:
		case errors.Is(c.err, journal.ErrOvertaken):
			o.opts.Logger.Warn("a snapshot was not kept", "partition", o.partition, "error", c.err)
		default:
			o.opts.Logger.Error("a snapshot was not kept", "partition", o.partition, "error", c.err)
		}
		close(c.done)
	})
	return err
}

// more returns a channel that is ready when a part of a cut can be written.
func (o *owner) more() <-chan struct{} {
	switch c := o.cut; {
	case c == nil:
		return nil
	case c.waiting() > mostWaiting:
		return c.written
	}
	return closed
}

// closed is a closed channel.
var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// continueCut writes a part of the cut in progress, for about the time of its budget. It yields the processor before:
// the scheduler preempts a goroutine that has run for 10 ms, and a preemption midway would leave the part half
// written until the next turn.
func (o *owner) continueCut(budget time.Duration) {
	if o.cut.waiting() > mostWaiting {
		return
	}
	runtime.Gosched()
	began := time.Now()
	err := o.writeCut(func() bool { return time.Since(began) >= budget })
	if o.cut != nil {
		o.cut.stopped = max(o.cut.stopped, time.Since(began))
	}
	o.abortCut(err)
}

// writeCut writes a part of the cut, and ends it when all is written. It makes no more pieces than may wait,
// since they are in memory until they are durable.
func (o *owner) writeCut(enough func() bool) error {
	whole, err := o.cutter.Write(func() bool { return o.cutter.Ready() > mostWaiting || enough() })
	if err != nil {
		return err
	}
	c := o.cut
	pieces := o.cutter.Pieces()
	for _, p := range pieces {
		c.bytes += len(p.Data)
	}
	if whole {
		c.at.oldest = o.cutter.Oldest()
	}
	c.mu.Lock()
	c.pieces, c.whole = append(c.pieces, pieces...), whole
	c.mu.Unlock()
	if whole {
		o.cut = nil
		o.metrics.cut(c.stopped, c.bytes)
	}
	signal(c.wake)
	return nil
}

// waiting returns how many pieces wait to be made durable.
func (c *cut) waiting() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pieces)
}

// next waits for pieces and returns them, or none if there are no more.
func (c *cut) next() (pieces []logdriven.Piece, err error) {
	for {
		c.mu.Lock()
		pieces, c.pieces = c.pieces, nil
		whole := c.whole
		c.mu.Unlock()
		if signal(c.written); whole || len(pieces) > 0 {
			return pieces, nil
		}
		select {
		case <-c.wake:
		case <-c.ctx.Done():
			return nil, context.Cause(c.ctx)
		}
	}
}

// abortCut ends the cut in progress, if there is one, with an error.
func (o *owner) abortCut(err error) {
	if err == nil || o.cut == nil {
		return
	}
	o.cut.cancel(err)
	o.cut = nil
}

// saveLastSnapshot makes a last snapshot, so that the next owner begins at once, and so that a changed program can be
// started.
func (o *owner) saveLastSnapshot() error {
	if o.abandoned.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.ctx), o.opts.LeaveWithin)
	defer cancel()
	o.departing.Store(true)
	err := o.finish(ctx)
	if err == nil && o.stored.at < o.fence && !errors.Is(o.before.err, journal.ErrOvertaken) {
		if err = o.crowded(ctx); err == nil {
			err = o.snapshotNow(ctx)
		}
	}
	if errors.Is(err, journal.ErrOvertaken) {
		return nil // the next owner has a snapshot of its own
	}
	if err != nil {
		err = fmt.Errorf("the last snapshot of partition %d was not kept: %w", o.partition, err)
		o.opts.Logger.Warn("left without a snapshot", "error", err)
	}
	if errors.Is(err, journal.ErrFull) {
		return nil // the history has everything, and the next owner frees space
	}
	return err
}

// snapshotNow makes a snapshot while steps wait. It is called while none is being made.
func (o *owner) snapshotNow(ctx context.Context) error {
	if err := o.beginCut(ctx); err != nil {
		return err
	}
	return o.finish(ctx)
}

// finish writes the rest of a cut in progress, and waits until it is durable. An earlier cut that failed is not
// an error.
func (o *owner) finish(ctx context.Context) error {
	open := o.cut != nil
	for o.cut != nil {
		select {
		case <-o.more():
			if err := o.writeCut(func() bool { return false }); err != nil {
				return err
			}
			continue
		case <-o.before.done: // it failed
			o.cut = nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	select {
	case <-o.before.done:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if open {
		return o.before.err
	}
	return nil
}
