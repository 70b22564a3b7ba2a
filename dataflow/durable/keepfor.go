package durable

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Forever is the [Options].KeepFor that purges nothing.
const Forever time.Duration = math.MaxInt64

// purgeEach is how many steps one Purge has at least while the history is looked through for what is to
// go, so that an owner that leaves in the middle has not looked for nothing.
const purgeEach = 4096

// purge forgets what is behind the snapshot before the last one, which is of time now: all of it,
// or what is older than Options.KeepFor.
func (o *owner) purge(ctx context.Context, before lastSnapshot, now int64) error {
	o.keeps.Store(false)
	keep := o.opts.KeepFor
	switch {
	case keep == Forever:
		return nil
	case keep <= 0 || o.pressed(ctx):
		// The last message taken stays: a start compares it with what the snapshot says of it.
		return o.log.Purge(ctx, o.partition, max(before.taken, 1)-1, before.fence)
	}
	err := o.purgeOlder(ctx, before.fence, now-int64(keep))
	if err == nil || ctx.Err() != nil {
		return err
	}
	// The snapshot is whole, so this is no reason to make it again. The next one tries again.
	o.opts.Logger.Warn("what is older than Options.KeepFor was not purged", "partition", o.partition, "error", err)
	return nil
}

// purgeOlder forgets the steps of before a time, and the records that they took, up to the step
// with the fence to. It reads the steps that it forgets and the first that stays.
func (o *owner) purgeOlder(ctx context.Context, to uint64, time int64) error {
	steps, err := o.log.Steps(ctx, o.partition, 0)
	if err != nil {
		return err
	}
	defer steps.Close()
	gone := uint64(0)  // how far the last step that is to go took records
	n, old := 0, false // steps that were read since the last Purge, and whether one is to go
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
			// The last message that was taken stays, as in purge.
			if err := o.log.Purge(ctx, o.partition, max(gone, 1)-1, committed.Fence); err != nil {
				return err
			}
			n, old = 0, false
		}
		if ends {
			o.keeps.Store(committed.Fence < to)
			return nil
		}
		if err == nil { // one that cannot be read goes with the next one that can
			gone, old = s.taken, true
		}
	}
}

// pressed reports whether the log is so full that everything that may be forgotten is forgotten.
func (o *owner) pressed(ctx context.Context) bool {
	if o.limit == 0 {
		return false
	}
	room, err := o.log.Room(ctx)
	return err == nil && room.Tight
}

// nearlyFull reports whether so little history is worth a snapshot that the log is nearly full.
func (o *owner) nearlyFull(worth int64) bool {
	return worth < o.limit/16/int64(o.log.Partitions())
}
