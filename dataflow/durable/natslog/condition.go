package natslog

import (
	"cmp"
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

var (
	_ journal.Conditioned = (*Log)(nil)
	_ journal.Conditioned = (*sharedLog)(nil)
)

// Condition returns an error while there is no connection to a server, or when the embedded
// server has no room, when MaxBytes was reached as far as is known, and why the log was ended. Else
// it returns nil. That the servers have no leader is not known without asking them.
func (l *Log) Condition() error {
	switch {
	case l.ctx.Err() != nil:
		return context.Cause(l.ctx)
	case l.embedded != nil && l.embedded.full():
		return fmt.Errorf("%w on the disk of %s", journal.ErrFull, l.opts.Dir)
	case !l.nc.IsConnected():
		return fmt.Errorf("natslog: %s cannot be reached (%v); it is tried all the time", l.where(), l.nc.LastError())
	}
	return cmp.Or(l.records.crowded(), l.steps.crowded())
}
