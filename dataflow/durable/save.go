package durable

import (
	"context"
	"fmt"
	"time"
)

// saveIfDue begins a snapshot if much or old history lies behind the last one. What is
// behind the snapshot is forgotten when that is durable.
func (o *owner) saveIfDue() {
	if o.unsaved == 0 || o.unsaved < o.opts.SnapshotBytes && time.Since(o.savedAt) < o.opts.SnapshotAge {
		return
	}
	select {
	case o.saveBusy <- struct{}{}:
	default:
		return
	}
	data, err := o.picture()
	if err != nil {
		<-o.saveBusy
		o.opts.Logger.Error("no snapshot was made", "partition", o.partition, "error", err)
		return
	}
	fence, taken := o.fence, o.last.taken
	o.saving.Go(func() {
		defer func() { <-o.saveBusy }()
		if err := o.keep(o.ctx, fence, taken, data); err != nil {
			o.opts.Logger.Error("a snapshot was not kept", "partition", o.partition, "error", err)
		}
	})
}

// picture returns the state after the last step.
func (o *owner) picture() ([]byte, error) {
	began := time.Now()
	s := o.last
	s.shape = o.program.numbers.Shape().String()
	var err error
	if s.state, err = o.leader.Save(nil); err != nil {
		return nil, err
	}
	o.unsaved, o.savedAt = 0, time.Now()
	o.metrics.pictured(time.Since(began), len(s.state))
	return s.encode(o.of), nil
}

// keep makes a snapshot durable and forgets what is behind it.
func (o *owner) keep(ctx context.Context, fence, taken uint64, data []byte) error {
	if err := o.log.SaveSnapshot(ctx, o.partition, fence, data); err != nil {
		return err
	}
	o.metrics.snapshots.Add(1)
	if o.opts.KeepHistory {
		return nil
	}
	// The last message taken stays: a start compares it with what the snapshot says of it.
	return o.log.Purge(ctx, o.partition, max(taken, 1)-1, fence)
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
	data, err := o.picture()
	if err == nil {
		err = o.keep(ctx, o.fence, o.last.taken, data)
	}
	if err != nil {
		err = fmt.Errorf("the last snapshot of partition %d was not kept: %w", o.partition, err)
		o.opts.Logger.Warn("left without a snapshot", "error", err)
	}
	return err
}
