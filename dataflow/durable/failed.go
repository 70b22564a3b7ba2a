package durable

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/logdriven"
)

// A PartitionError says that a partition has stopped because it cannot go on: a function failed and no record
// caused it, a replayed step gave a different result, its history is damaged, or its quarantine is full. The
// other partitions go on. The stored records of the partition stay stored, and are handled when a process
// starts that can.
//
// Ports return it for sends to the partition and for awaited entries of it. Records that other processes have
// sent meanwhile stay stored, too.
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

// failed is called by the owner of a partition that cannot go on. The partition stops. The flow ends if no
// other partition runs, or if all of them would fail in the same way: because of the log, or because the
// process runs a changed program.
func (c *core) failed(p int, err error) {
	if c.opts.EndOnFailure || !c.ofOnePartition(err) || !c.gateway.halt(p, err) {
		c.ended(err)
		return
	}
	c.opts.Logger.Error("a partition stops, and the others go on", "partition", p, "error", err)
	location, _ := c.layout.place(p)
	if c.peers == nil && c.gateway.haltedAll(location) {
		logdriven.Abandon(c.facade, location, c.gateway.partitions[p].failure())
	}
}

// ofOnePartition reports whether an error concerns its partition only.
func (c *core) ofOnePartition(err error) bool {
	if errors.Is(err, journal.ErrClosed) {
		return false
	}
	var step *dataflow.StepError
	return c.refusing(err) != nil || errors.As(err, &step) || errors.Is(err, ErrDiverged) || errors.Is(err, ErrDamaged) ||
		errors.Is(err, logdriven.ErrQuarantineFull) || errors.Is(err, journal.ErrTooLarge)
}

// halt notes that a partition of this process has stopped. If no other partition runs, it returns false and
// notes nothing. Where processes share the flow, partitions of others count as running, and so do those that
// this process may own in a moment.
func (g *gateway) halt(p int, err error) bool {
	g.halting.Lock()
	defer g.halting.Unlock()
	others := g.peers != nil && (len(g.partitions) > 1 || g.refusing(err) != nil)
	for i, w := range g.partitions {
		if i != p && !others {
			w.mu.Lock()
			others = w.owned && w.runs.Err() == nil
			w.mu.Unlock()
		}
	}
	if !others {
		return false
	}
	location, _ := g.layout.place(p)
	w := g.partitions[p]
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turn(true) // even if it was never restored: requests get an answer
	w.halt(&PartitionError{p, g.facade.Location(location), err})
	w.open()
	return true
}

// haltedAll reports whether all partitions of a location have stopped.
func (g *gateway) haltedAll(location int) bool {
	for p := g.layout.first[location]; p < g.layout.first[location+1]; p++ {
		if g.partitions[p].failure() == nil {
			return false
		}
	}
	return true
}

// failure returns why the partition has stopped, or nil.
func (pg *partitionGateway) failure() error {
	return context.Cause(pg.running())
}

// running returns a context that ends when the partition stops, with the cause.
func (pg *partitionGateway) running() context.Context {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	return pg.runs
}

// whileRuns returns a context that ends when ctx does or when the partition stops, with the cause, and a
// function that ends it earlier.
func (pg *partitionGateway) whileRuns(ctx context.Context) (context.Context, context.CancelCauseFunc) {
	runs := pg.running()
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(runs, func() { cancel(context.Cause(runs)) })
	return ctx, func(cause error) {
		stop()
		cancel(cause)
	}
}
