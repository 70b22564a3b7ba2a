package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A PartitionError says that a partition has stopped because it cannot go on: a function failed
// for which no record is to blame, a step made again gave something else, its history is damaged,
// or its quarantine is full. The other partitions go on. What was kept for the partition stays
// kept, and is handled when a process starts that can.
//
// Ports return it for what is sent to the partition, and for entries of it that are awaited. A
// record that another process has sent meanwhile is kept as well.
type PartitionError struct {
	Partition int
	Location  string // name of the location
	Err       error  // why it stopped
}

func (e *PartitionError) Error() string {
	return fmt.Sprintf("durable: partition %d of %s has stopped: %v; the other partitions go on, and this one does when the cause is mended and the flow is started again", e.Partition, e.Location, e.Err)
}

// Unwrap returns why the partition stopped.
func (e *PartitionError) Unwrap() error { return e.Err }

// failed is called by the owner of a partition that cannot go on. The partition stops, and the
// flow does if no other one runs, or if all of them would fail as this one did: because of the
// log, or because the process has another program.
func (c *core) failed(p int, err error) {
	if c.opts.EndOnFailure || !c.ofOnePartition(err) || !c.door.halt(p, err) {
		c.ended(err)
		return
	}
	c.opts.Logger.Error("a partition stops, and the others go on", "partition", p, "error", err)
	site, _ := c.layout.place(p)
	if c.peers == nil && c.door.haltedAll(site) {
		logdriven.Abandon(c.facade, site, c.door.partitions[p].failure())
	}
}

// ofOnePartition reports whether an error says nothing of other partitions.
func (c *core) ofOnePartition(err error) bool {
	if errors.Is(err, journal.ErrClosed) {
		return false
	}
	var step *dataflow.StepError
	return c.refusing(err) != nil || errors.As(err, &step) || errors.Is(err, ErrDiverged) || errors.Is(err, ErrDamaged) ||
		errors.Is(err, logdriven.ErrQuarantineFull) || errors.Is(err, journal.ErrTooLarge)
}

// halt notes that a partition of this process has stopped. It returns false, and notes nothing,
// if no other one runs. Where processes share the flow, those of others count as running, and
// so do those that this process may have in a moment.
func (d *door) halt(p int, err error) bool {
	d.halting.Lock()
	defer d.halting.Unlock()
	others := d.peers != nil && (len(d.partitions) > 1 || d.refusing(err) != nil)
	for i, w := range d.partitions {
		if i != p && !others {
			w.mu.Lock()
			others = w.owned && w.runs.Err() == nil
			w.mu.Unlock()
		}
	}
	if !others {
		return false
	}
	site, _ := d.layout.place(p)
	w := d.partitions[p]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(true) // also if it was never restored: whoever asks is told
	w.halt(&PartitionError{p, d.facade.Location(site), err})
	w.open()
	return true
}

// haltedAll reports whether all partitions of a location have stopped.
func (d *door) haltedAll(site int) bool {
	for p := d.layout.first[site]; p < d.layout.first[site+1]; p++ {
		if d.partitions[p].failure() == nil {
			return false
		}
	}
	return true
}

// failure returns why the partition has stopped, or nil.
func (w *doorway) failure() error {
	return context.Cause(w.running())
}

// running returns a context that ends when the partition stops, with the cause.
func (w *doorway) running() context.Context {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.runs
}

// whileRuns returns a context that ends when ctx does, or when the partition stops, with the
// cause, and what ends it before.
func (w *doorway) whileRuns(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	runs := w.running()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(runs, func() { cancel(context.Cause(runs)) })
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}
