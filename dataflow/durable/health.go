package durable

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
)

// A PartitionState says in one word what a process does with a partition.
type PartitionState string

// The states of a partition. As far as this process knows, it is in one of them at a time.
const (
	Restoring PartitionState = "restoring" // this process restores it, and makes no steps yet
	Running   PartitionState = "running"   // this process makes its steps
	Full      PartitionState = "full"      // it takes only what makes room: see Blocked of its status
	Stopped   PartitionState = "stopped"   // it cannot go on: see Stopped of its status
	Elsewhere PartitionState = "elsewhere" // another process owns it, or none does
	Ended     PartitionState = "ended"     // the flow has ended in this process
)

// PartitionStates returns all states of a partition.
func PartitionStates() []PartitionState {
	return []PartitionState{Restoring, Running, Full, Stopped, Elsewhere, Ended}
}

// Health is how a durable flow is in one process, for monitoring. It is a copy. Package monitor
// serves it to Prometheus and to probes.
type Health struct {
	Partitions []PartitionStatus // of all partitions, as [App.Status] returns them
	Metrics    Metrics
	MaxLag     Lag // as [Options].MaxLag

	// Log is why the log takes nothing now: [journal.ErrFull], or that its servers cannot be
	// reached. It is nil if the log is well, or does not say: see [journal.Conditioned].
	Log error

	// Witness is why [Options].Witness does not know of all steps, or was not asked when a
	// partition was restored. It is nil if it is well, or there is none. Nothing waits for it, so the flow
	// is ready all the same.
	Witness error

	// Size is what the log takes of a disk, as it was at Measured. Measured is zero, and so is
	// Size, if the log does not say: see [journal.Sized]. The log is asked when Health is called, once
	// a second at most, and what it does not answer at once is in a later Health.
	Size     journal.Size
	Measured time.Time

	// Members are the IDs of the processes that share the partitions, as this one sees it, in
	// order: without those that it suspects to be gone, and without itself while it cannot renew its
	// own part. It is nil if no process shares them, in a client, and if the log does not say: see
	// [journal.Roster].
	Members []string

	Ended bool  // the flow has ended in this process
	Err   error // why it has ended, as [App.Err]; nil while it runs and after Stop
}

// Health returns how the flow is. Any goroutine may call it at any time, also when the flow has
// ended. It takes as long as [App.Status], 10 ms at most, and waits no longer for a disk, for
// another process or a server.
func (a *App[P]) Health() Health {
	c := a.made()
	h := Health{MaxLag: c.opts.MaxLag}
	if c.ending.Load() {
		h.Partitions, h.Metrics, h.Ended, h.Err = a.Status(), a.Metrics(), true, a.Err()
		return h // its log is closed
	}
	timeout := time.NewTimer(engine.Patience)
	defer timeout.Stop()
	sized := c.measured.sizing.refresh(c.ctx, c.measured.Log)
	h.Partitions, h.Metrics = a.Status(), a.Metrics()
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
	h.Log, h.Witness = c.measured.condition(), c.seen.condition()
	if h.Ended = c.ending.Load(); h.Ended {
		h.Log, h.Err = nil, a.Err()
	}
	return h
}

// Live returns an error if the process can do nothing for the flow any longer: the flow has
// ended. Starting the process again may help then, and helps against nothing else that Health
// tells.
func (h *Health) Live() error {
	switch {
	case h.Err != nil:
		return fmt.Errorf("durable: the flow has ended: %w", h.Err)
	case h.Ended:
		return ErrStopped
	}
	return nil
}

// Ready returns an error if something that is sent to this process now may wait long or be
// refused: the flow has ended, its log takes nothing, or a partition that this process owns is
// being restored, is stopped, is full, or is as far behind as [Options].MaxLag permits. It has
// all reasons, joined. Partitions of other processes are not looked at, so a client is ready
// while its log is.
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

// state returns the state of a partition, with mu held. Owned says that an owner answers.
func (w *doorway) state(ended, owned bool) PartitionState {
	switch {
	case context.Cause(w.runs) != nil:
		return Stopped
	case ended:
		return Ended
	case owned && w.full != nil:
		return Full
	case owned:
		return Running
	case w.owning:
		return Restoring
	}
	return Elsewhere
}

// own notes whether this process tries to own the partition.
func (w *doorway) own(owning bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owning = owning
}
