package durable

import (
	"context"
	"fmt"
	"time"
)

// A cut is a snapshot that is being made: of the state as it was after one step, while steps
// go on. What changes before it was written is written first, so steps wait only for a small
// part of the work at a time.
type cut struct {
	fence   uint64
	at      snapshot      // after the step, without the state
	state   []byte        // what was written of it
	stopped time.Duration // how long steps waited at most
}

// aSlice is how long steps wait for a cut at a time, at most.
const aSlice = time.Millisecond

// cutIfDue begins a snapshot if much or old history lies behind the last one. What is
// behind the snapshot is forgotten when that is durable.
func (o *owner) cutIfDue() {
	if o.cut != nil || o.unsaved == 0 || o.unsaved < o.opts.SnapshotBytes && time.Since(o.savedAt) < o.opts.SnapshotAge {
		return
	}
	select {
	case o.saveBusy <- struct{}{}:
	default:
		return
	}
	o.notMade(o.beginCut())
}

// beginCut notes what the state is now.
func (o *owner) beginCut() error {
	began := time.Now()
	c := &cut{fence: o.fence, at: o.last}
	c.at.shape = o.program.numbers.Shape().String()
	o.cut = c
	o.unsaved, o.savedAt = 0, began
	o.cutter.Again()
	err := o.cutter.Begin()
	c.stopped = time.Since(began)
	return err
}

// more is ready while there is a cut to write.
func (o *owner) more() <-chan struct{} {
	if o.cut == nil {
		return nil
	}
	return always
}

// always is ready.
var always = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// goOn writes a part of the cut under way, for about as long as it is given.
func (o *owner) goOn(budget time.Duration) {
	began := time.Now()
	done, err := o.writeCut(func() bool { return time.Since(began) >= budget })
	if o.cut.stopped = max(o.cut.stopped, time.Since(began)); err != nil {
		o.notMade(err)
		return
	}
	if !done {
		return
	}
	c := o.endCut()
	o.saving.Go(func() {
		defer func() { <-o.saveBusy }()
		if err := o.keep(o.ctx, c); err != nil {
			o.opts.Logger.Error("a snapshot was not kept", "partition", o.partition, "error", err)
		}
	})
}

func (o *owner) writeCut(enough func() bool) (done bool, err error) {
	done, err = o.cutter.Write(enough)
	for _, p := range o.cutter.Pieces() {
		o.cut.state = append(o.cut.state, p.Data...)
	}
	return done, err
}

// endCut returns the cut, which is written.
func (o *owner) endCut() *cut {
	c := o.cut
	o.cut = nil
	o.metrics.cut(c.stopped, len(c.state))
	return c
}

// notMade ends a cut with an error.
func (o *owner) notMade(err error) {
	if err != nil {
		o.cut = nil
		<-o.saveBusy
		o.opts.Logger.Error("no snapshot was made", "partition", o.partition, "error", err)
	}
}

// keep makes a snapshot durable and forgets what is behind it.
func (o *owner) keep(ctx context.Context, c *cut) error {
	c.at.state = c.state
	if err := o.log.SaveSnapshot(ctx, o.partition, c.fence, c.at.encode(o.of)); err != nil {
		return err
	}
	o.metrics.snapshots.Add(1)
	if o.opts.KeepHistory {
		return nil
	}
	// The last message taken stays: a start compares it with what the snapshot says of it.
	return o.log.Purge(ctx, o.partition, max(c.at.taken, 1)-1, c.fence)
}

// leave makes a last snapshot, so that whoever is next begins at once, and so that a
// changed program can be started.
func (o *owner) leave() error {
	if o.abandoned.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(o.ctx), o.opts.LeaveWithin)
	defer cancel()
	o.saving.Wait()
	err := o.keepNow(ctx)
	if err != nil {
		err = fmt.Errorf("the last snapshot of partition %d was not kept: %w", o.partition, err)
		o.opts.Logger.Warn("left without a snapshot", "error", err)
	}
	return err
}

// keepNow makes a snapshot while steps wait. None is being made.
func (o *owner) keepNow(ctx context.Context) error {
	if err := o.beginCut(); err != nil {
		return err
	}
	if _, err := o.writeCut(func() bool { return false }); err != nil {
		return err
	}
	return o.keep(ctx, o.endCut())
}
