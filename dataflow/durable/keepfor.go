package durable

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Forever is an [Options].KeepFor that purges nothing.
const Forever time.Duration = math.MaxInt64

// purgeEach is the number of steps after which purgeOlder calls Purge, so that an owner that leaves midway has
// not read them for nothing.
const purgeEach = 4096

// purge deletes the history before the last snapshot but one: all of it, or what is older than Options.KeepFor.
// Before is that snapshot, and now is the time of the last one.
func (o *owner) purge(ctx context.Context, before lastSnapshot, now int64) error {
	o.keeps.Store(false)
	keep := o.opts.KeepFor
	switch {
	case keep == Forever:
		return nil
	case keep <= 0 || o.pressed(ctx):
		// The last message taken stays: a start compares it with the snapshot's digest of it.
		return o.log.Purge(ctx, o.partition, max(before.taken, 1)-1, before.fence)
	}
	err := o.purgeOlder(ctx, before.fence, now-int64(keep))
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The snapshot is complete, so this is no reason to repeat it. The next one purges again.
	o.opts.Logger.Warn("what is older than Options.KeepFor was not purged", "partition", o.partition, "error", err)
	return nil
}

// purgeOlder deletes the steps before a time, and the records that they took, up to the step with the fence to.
// It reads the steps that it deletes and the first one that stays.
func (o *owner) purgeOlder(ctx context.Context, to uint64, time int64) error {
	steps, err := o.log.Steps(ctx, o.partition, 0)
	if err != nil {
		return err
	}
	defer steps.Close()
	gone := uint64(0)  // position up to which the last step to delete took records
	n, old := 0, false // steps read since the last Purge, and whether one of them is to be deleted
	for {
		committed, err := steps.Next(ctx)
		if errors.Is(err, journal.ErrPurged) { // by another owner
			return nil
		}
		if err != nil {
			return err
		}
		s, err := decodeStep(o.of, committed.Data)
		ends := committed.Fence >= to || err == nil && s.now >= time
		if n++; old && (ends || n >= purgeEach) {
			// The last message taken stays, as in purge.
			if err := o.log.Purge(ctx, o.partition, max(gone, 1)-1, committed.Fence); err != nil {
				return err
			}
			n, old = 0, false
		}
		if ends {
			o.keeps.Store(committed.Fence < to)
			return nil
		}
		if err == nil { // an unreadable step goes with the next readable one
			gone, old = s.taken, true
		}
	}
}

// pressed reports whether the log is so full that everything that may be deleted is deleted.
func (o *owner) pressed(ctx context.Context) bool {
	if o.limit == 0 {
		return false
	}
	room, err := o.log.Room(ctx)
	return err == nil && room.Tight
}

// nearlyFull reports whether the log is so nearly full that a snapshot is made for little history.
func (o *owner) nearlyFull(worth int64) bool {
	return worth < o.limit/16/int64(o.log.Partitions())
}
