package host

import (
	"context"
	"errors"

	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/inspect"
)

// Health returns the health of the runtime's durable flow, for package monitor. It reports false without [Options].State.
func (rt *Runtime) Health() (h durable.Health, ok bool) {
	if rt.kept == nil {
		return h, false
	}
	return rt.kept.Health(), true
}

// Flow returns the flow of the runtime, for package inspect.
func (rt *Runtime) Flow() inspect.App { return rt.flow }

// A Quarantine manages the records that the flow of a runtime could not handle. Its methods are those of [durable.App].
type Quarantine interface {
	Quarantine(ctx context.Context) ([]durable.Letter, error)
	Retry(ctx context.Context, partition int, id uint64) error
	Drop(ctx context.Context, partition int, id uint64) error
}

// Quarantine returns the quarantine of the runtime, for package monitor. It is nil without [Options].State.
func (rt *Runtime) Quarantine() Quarantine {
	if rt.kept == nil {
		return nil
	}
	return rt.kept
}

// Backup copies the history of the runtime to another log while the runtime runs, as [durable.App.Backup] does. It returns an
// error without [Options].State.
func (rt *Runtime) Backup(ctx context.Context, to journal.Opener) (durable.Copied, error) {
	if rt.kept != nil {
		return rt.kept.Backup(ctx, to)
	}
	return durable.Copied{}, errors.New("host: it keeps nothing that could be copied: give Options.State")
}
