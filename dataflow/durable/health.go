package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
)

// A PartitionState is what a process does with a partition, in one word.
type PartitionState string

// The states of a partition. A process sees a partition in exactly one of them at a time.
const (
	Restoring PartitionState = "restoring" // this process restores it, and makes no steps yet
	Running   PartitionState = "running"   // this process makes its steps
	Full      PartitionState = "full"      // it takes only records that free space: see Blocked in its status
	Stopped   PartitionState = "stopped"   // it cannot go on: see Stopped in its status
	Elsewhere PartitionState = "elsewhere" // another process owns it, or none does
	Ended     PartitionState = "ended"     // the flow has ended in this process
)

// PartitionStates returns all states of a partition.
func PartitionStates() []PartitionState {
	return []PartitionState{Restoring, Running, Full, Stopped, Elsewhere, Ended}
}

// Health describes the state of a durable flow in one process, for monitoring. It is a copy. Package monitor
// serves it to Prometheus and to probes.
type Health struct {
	Partitions []PartitionStatus // of all partitions, as [App.Status] returns them
	Metrics    Metrics
	MaxLag     Lag // as in [Options].MaxLag

	// Log is why the log takes nothing now: [journal.ErrFull], or an error that says that its servers cannot be
	// reached. It is nil if the log is well, or does not report its condition: see [journal.Conditioned].
	Log error

	// Witness is why [Options].Witness does not know of all steps, or was not consulted when a partition was
	// restored. It is nil if all is well or there is no witness. A flow with a failing witness is still ready,
	// since nothing waits for it.
	Witness error

	// Size is the disk space that the log takes, as of the time Measured. Both are zero if the log does not
	// report it: see [journal.Sized]. Health asks the log at most once a second, and waits at most 10 ms
	// for the answer; an answer that comes later is in a later Health.
	Size     journal.Size
	Measured time.Time

	// Members are the sorted IDs of the processes that share the partitions, as this one sees them: without
	// those that it suspects to be gone, and without itself while it cannot renew its own lease. It is nil in a
	// client, if the log is for one process, and if the log does not report it: see [journal.Roster].
	Members []string

	Ended bool  // the flow has ended in this process
	Err   error // why it has ended, as in [App.Err]; nil while it runs and after Stop
}

// Health returns the state of the flow. Any goroutine may call it at any time, even after the flow has ended.
// It takes as long as [App.Status], at most 10 ms, and waits no longer than that for a disk, another process or
// a server.
func (a *App[P]) Health() Health { return a.made().health() }

func (c *core) health() Health {
	h := Health{MaxLag: c.opts.MaxLag}
	if c.ending.Load() {
		h.Partitions, h.Metrics, h.Ended, h.Err = c.status(), c.figures(), true, c.whyEnded()
		return h // its log is closed
	}
	timeout := time.NewTimer(engine.Patience)
	defer timeout.Stop()
	sized := c.measured.sizing.refresh(c.ctx, c.measured.Log)
	h.Partitions, h.Metrics = c.status(), c.figures()
	select {
	case <-sized:
	case <-timeout.C:
	}
	h.Size, h.Measured = c.measured.sizing.latest()
	if c.peers != nil {
		if r, ok := c.peers.member.(journal.Roster); ok {
			h.Members = r.Members()
		}
	}
	h.Log, h.Witness = c.measured.condition(), c.witnessing.condition()
	if h.Ended = c.ending.Load(); h.Ended {
		h.Log, h.Err = nil, c.whyEnded()
	}
	return h
}

// Live returns an error if the flow has ended, so that the process can do nothing more for it. This is the only
// condition in a Health that restarting the process may help.
func (h *Health) Live() error {
	switch {
	case h.Err != nil:
		return fmt.Errorf("durable: the flow has ended: %w", h.Err)
	case h.Ended:
		return ErrStopped
	}
	return nil
}

// Ready returns an error if a send to this process may now wait long or be refused: the flow has ended, its log
// takes nothing, or a partition that this process owns is being restored, has stopped, is full, or is as far
// behind as [Options].MaxLag permits. All reasons are joined. Partitions of other processes do not count, so a
// client is ready while its log is.
func (h *Health) Ready() error {
	if err := h.Live(); err != nil {
		return err
	}
	var reasons []error
	if h.Log != nil {
		reasons = append(reasons, h.Log)
	}
	for i := range h.Partitions {
		p := &h.Partitions[i]
		switch p.State {
		case Restoring:
			reasons = append(reasons, fmt.Errorf("durable: partition %d of %s is being restored", p.Partition, p.Name))
		case Stopped:
			reasons = append(reasons, p.Stopped)
		case Full:
			reasons = append(reasons, fmt.Errorf("durable: partition %d: %w", p.Partition, p.Blocked))
		case Running:
			if p.Lag.Records >= h.MaxLag.Records || p.Lag.Bytes >= h.MaxLag.Bytes {
				reasons = append(reasons, fmt.Errorf("durable: partition %d of %s is %d records and %d bytes behind its senders, who wait", p.Partition, p.Name, p.Lag.Records, p.Lag.Bytes))
			}
		}
	}
	return errors.Join(reasons...)
}

// state returns the state of a partition, with mu held. Owned says that an owner runs here and answers.
func (pg *partitionGateway) state(ended, owned bool) PartitionState {
	switch {
	case context.Cause(pg.runs) != nil:
		return Stopped
	case ended:
		return Ended
	case owned && pg.full != nil:
		return Full
	case owned:
		return Running
	case pg.owning:
		return Restoring
	}
	return Elsewhere
}

// own notes whether this process tries to own the partition.
func (pg *partitionGateway) own(owning bool) {
	pg.mu.Lock()
	defer pg.mu.Unlock()
	pg.owning = owning
}
