package disklog

import (
	"context"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

var _ journal.Conditioned = (*Log)(nil)

// Condition returns journal.ErrFull while the disk is full or MaxBytes refuses sends. After the log
// has failed or was closed, it returns the reason. Otherwise it returns nil.
func (l *Log) Condition() error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if err := l.room.check(); err != nil {
		return err
	}
	return l.bound.Condition()
}
