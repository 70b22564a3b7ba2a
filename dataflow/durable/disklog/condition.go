package disklog

import (
	"context"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

var _ journal.Conditioned = (*Log)(nil)

// Condition returns journal.ErrFull while the disk is full, and why the log has failed or was
// closed. Else it returns nil.
func (l *Log) Condition() error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	return l.room.check()
}
