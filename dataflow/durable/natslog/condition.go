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

// Condition returns an error while no server is connected, while the embedded server has no room,
// or while MaxBytes is reached as far as is known. After the log has ended, it returns the reason.
// Otherwise it returns nil. It does not notice that the servers have no leader, because it does not
// ask them.
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
