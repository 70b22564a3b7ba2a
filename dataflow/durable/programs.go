package durable

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
)

// A Rollout says which programs run a flow at one moment. See [Programs].
type Rollout struct {
	Partitions []PartitionProgram   // in order
	Members    []journal.MemberInfo // by ID; empty if no process shares the flow
}

// A PartitionProgram says which program made the last step of a partition.
type PartitionProgram struct {
	Partition int
	Location  string // name of the location; empty if there is no step
	Owner     string // ID of the member that owns it; empty if there is none
	Step      uint64 // number of the last step; zero if there is none
	Version   string // of the program that made that step, as [Options].Version
	Program   string // digest of the parts of that program that the history depends on; empty if there is no step
	Err       error  // why the partition could not be read
}

// Programs reads which programs made the last steps of a flow, and which run it now, without a program of its
// own. It uses Log, Name and Logger of opts. A log for one process cannot be opened while that process runs. On
// a cluster the flow may run meanwhile: what it does may or may not be seen, and a member that has just died
// may still be listed.
//
// Programs reads the steps since the last snapshot, one partition at a time. The error is that of opening the
// log, of asking for the members, or of ctx. An error of one partition is in its Err.
func Programs(ctx context.Context, opts Options) (*Rollout, error) {
	if ctx == nil {
		engine.NilContext("durable.Programs")
	}
	opts = opts.withDefaults()
	log, err := openExisting(ctx, &opts)
	if err != nil {
		return nil, err
	}
	r := &Rollout{}
	if s, ok := log.(journal.Surveyed); ok {
		if r.Members, err = s.Survey(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("durable: %w", err), log.Close())
		}
	}
	for p := range log.Partitions() {
		is := PartitionProgram{Partition: p}
		is.Err = is.read(ctx, log)
		for _, m := range r.Members {
			if slices.Contains(m.Owns, p) {
				is.Owner = m.ID
			}
		}
		r.Partitions = append(r.Partitions, is)
	}
	return r, errors.Join(ctx.Err(), log.Close())
}

// read finds out which program made the last step.
func (is *PartitionProgram) read(ctx context.Context, log journal.Log) error {
	h, err := log.Restore(ctx, is.Partition)
	if err != nil || h.Fence == 0 {
		return err
	}
	id := log.Identity()
	of := origin{[4]byte(id[:4]), is.Partition}
	var begins *snapshot
	if h.Snapshot != nil {
		s, err := newest(of, h.Snapshot)
		if err != nil {
			return err
		}
		begins = &s
	}
	_, shape, err := shapesOf(of, h, begins)
	if err != nil {
		return err
	}
	is.Step = h.Fence
	if shape != nil {
		is.Location = shape.Location
		if n := len(shape.Programs); n > 0 {
			is.Program = shape.Programs[n-1]
		}
	}
	is.Version, err = versionOf(of, h, begins)
	return err
}

// versionOf returns the version of the program that made the last step of a history. Begins is the snapshot
// that the history begins with, or nil.
func versionOf(of origin, h *journal.History, begins *snapshot) (version string, err error) {
	if begins != nil {
		version = begins.version
	}
	for _, committed := range h.Steps {
		s, err := decodeStep(of, committed.Data)
		if err != nil {
			return "", fmt.Errorf("step %d: %w", committed.Fence, err)
		}
		if s.newVersion {
			version = s.version
		}
	}
	return version, nil
}

// Newest returns the version of the member that joined last, by the members' own clocks. It is empty if there
// is no member.
func (r *Rollout) Newest() string {
	var last journal.MemberInfo
	for _, m := range r.Members {
		if m.Joined.After(last.Joined) {
			last = m
		}
	}
	return last.Version
}

// Done reports whether the rollout is over: there are members, all of them have the newest version, and every
// partition is readable and has an owner that does not refuse it. Members without a version count as equal.
func (r *Rollout) Done() bool {
	newest := r.Newest()
	can := make(map[int]bool)
	for _, m := range r.Members {
		if m.Version != newest {
			return false
		}
		for _, p := range m.Owns {
			can[p] = !slices.Contains(m.Refuses, p)
		}
	}
	return len(r.Members) > 0 && !slices.ContainsFunc(r.Partitions, func(p PartitionProgram) bool { return !can[p.Partition] || p.Err != nil })
}
