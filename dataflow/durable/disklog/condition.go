package disklog

import (
	"context"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

var _ journal.Conditioned = (*Log)(nil)

// Condition returns journal.ErrFull while the disk is full or sends are refused by MaxBytes, and why
// the log has failed or was closed. Else it returns nil.
func (l *Log) Condition() error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if err := l.room.check(); err != nil {
		return err
	}
	return l.bound.Condition()
}
