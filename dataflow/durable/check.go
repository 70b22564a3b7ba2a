package durable

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine"
)

// A PartitionCheck is the result of [Check] for a partition.
type PartitionCheck struct {
	Partition int

	From     uint64 // number of the first step whose records were checked; zero if there is none
	Last     uint64 // number of the last step; zero if there is none
	Snapshot uint64 // number of the step that the snapshot was made after; zero if there is none

	Messages, Steps uint64 // numbers of those that were checked
	Waiting         int    // records that no step has taken

	Err error // a [*DamagedError] if the history is inconsistent, or why it could not be checked
}

// Check reads the stored history of a flow, without its program, and tests whether it is consistent: each
// record, step and snapshot belongs to this history and has a correct checksum; each step follows the previous
// one and took the records that are stored; the snapshot is that of its step; no record is missing that a step
// knew of. It changes nothing and calls no function of the program. Whether the program can continue from there
// is tested by [History.Verify].
//
// Check uses Log, Name, Logger and Witness of opts. A log for one process cannot be opened while that process
// runs; use [App.Check] there. Other processes may run the flow on servers meanwhile; what they add may or may
// not be checked.
//
// Check reads everything once, and holds a snapshot and the steps since then in memory, one partition at a
// time. The error is that of opening the log, such as [ErrMissing], or the cause of the end of ctx, or all Errs
// joined.
func Check(ctx context.Context, opts Options) ([]PartitionCheck, error) {
	if ctx == nil {
		engine.NilContext("durable.Check")
	}
	opts = opts.withDefaults()
	log, err := openExisting(ctx, &opts)
	if err != nil {
		return nil, err
	}
	all, err := checkAll(ctx, log, &opts)
	return all, errors.Join(err, log.Close())
}

// Check is the function [Check] on the log of a running flow.
func (a *App[P]) Check(ctx context.Context) ([]PartitionCheck, error) { return a.made().check(ctx) }

func (c *core) check(ctx context.Context) ([]PartitionCheck, error) {
	if ctx == nil {
		engine.NilContext("durable.App.Check")
	}
	return checkAll(ctx, c.log, &c.opts)
}

// openExisting opens an existing log, whatever flow it belongs to.
func openExisting(ctx context.Context, opts *Options) (journal.Log, error) {
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
		if errors.As(err, &found) { // the damage may be only in what a copy leaves out
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

// tokenOf returns the token for the damage that affects a copy of a partition, or "" if there is none.
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
