package durable

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
)

// A PartitionCheck is what [Check] has found of a partition.
type PartitionCheck struct {
	Partition int

	From     uint64 // number of the first step whose records were looked at; zero if there is none
	Last     uint64 // number of the last step; zero if there is none
	Snapshot uint64 // number of the step that the snapshot was made after; zero if there is none

	Messages, Steps uint64 // that were looked at
	Waiting         int    // records that no step has taken

	Err error // a [*DamagedError] if something does not fit, or why it could not be looked at
}

// Check reads all that is kept of a flow, without its program, and says whether it fits
// together: each record, step and snapshot is one of this history and has its checksum; each step
// follows the one before and took the records that are there; the snapshot is that of its step;
// no record is gone that a step knew of. It changes nothing, calls no function of the program, and
// does not say whether the program can go on from there: see [History.Verify].
//
// Of opts it uses Log, Name, Logger and Witness. A log of one process cannot be opened while that process
// runs: [App.Check] does the same there. Others may run the flow meanwhile; what they add may be
// looked at or not.
//
// It reads everything once, and keeps a snapshot and the steps since in memory, of one partition
// at a time. The error is that of opening the log, such as [ErrMissing], or the end of ctx, or else all Errs joined.
func Check(ctx context.Context, opts Options) ([]PartitionCheck, error) {
	if ctx == nil {
		engine.NilContext("durable.Check")
	}
	opts = opts.withDefaults()
	log, err := openKept(ctx, &opts)
	if err != nil {
		return nil, err
	}
	all, err := checkAll(ctx, log, &opts)
	return all, errors.Join(err, log.Close())
}

// Check is the function [Check] on the log of a flow that runs.
func (a *App[P]) Check(ctx context.Context) ([]PartitionCheck, error) {
	c := a.made()
	if ctx == nil {
		engine.NilContext("durable.App.Check")
	}
	return checkAll(ctx, c.log, &c.opts)
}

// openKept opens a log that has to be there, whatever flow it is of.
func openKept(ctx context.Context, opts *Options) (journal.Log, error) {
	if opts.Log == nil {
		return nil, errNoLog
	}
	log, err := opts.Log.Open(ctx, journal.OpenOptions{Name: opts.Name, Existing: true, Logger: opts.Logger})
	if err != nil {
		return nil, fmt.Errorf("durable: %w", err)
	}
	return log, nil
}

func checkAll(ctx context.Context, log journal.Log, opts *Options) ([]PartitionCheck, error) {
	var all []PartitionCheck
	var errs []error
	for p := range log.Partitions() {
		in := inspect(log, opts, p)
		in.whole = true
		err := in.run(ctx)
		var found *DamagedError
		if errors.As(err, &found) { // maybe only in what a copy does not have
			found.Token = tokenOf(ctx, log, opts, p)
		}
		in.found.Err = err
		if all = append(all, in.found); err != nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return all, errors.Join(errs...)
}

// tokenOf returns the token of the damage that a copy of a partition would have, if there is any.
func tokenOf(ctx context.Context, log journal.Log, opts *Options, partition int) string {
	var found *DamagedError
	if err := inspect(log, opts, partition).run(ctx); errors.As(err, &found) {
		return found.Token
	}
	return ""
}

// inspect returns an inspection of a partition.
func inspect(log journal.Log, opts *Options, partition int) *inspection {
	id := log.Identity()
	return &inspection{
		upTo: math.MaxUint64,
		log:  log, of: origin{[4]byte(id[:4]), partition}, name: opts.Name, at: opts.Log.String(), partition: partition,
		witnessed: opts.Witness, logger: opts.Logger,
	}
}
