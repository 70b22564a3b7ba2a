package disklog

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// unfinishedName is the file that exists while a history is copied into the log.
const unfinishedName = "unfinished"

var _ journal.Target = (*Log)(nil)

// BeginCopy makes Open refuse the folder with journal.ErrUnfinished until [Log.EndCopy].
func (l *Log) BeginCopy(ctx context.Context) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if err := writeFile(l.opts.fs, l.path(unfinishedName), []byte("A history is being copied here. If no process does so any longer, remove the folder and copy again.\n")); err != nil {
		return fmt.Errorf("disklog: %w", err)
	}
	return context.Cause(ctx)
}

// EndCopy allows the folder to be opened again.
func (l *Log) EndCopy(ctx context.Context) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	err := l.opts.fs.Remove(l.path(unfinishedName))
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = syncDir(l.opts.fs, l.opts.dir)
	}
	if err != nil {
		return fmt.Errorf("disklog: %w", err)
	}
	return context.Cause(ctx)
}

// unfinished returns an error if a copy into the folder was not completed.
func (l *Log) unfinished() error {
	_, err := l.opts.fs.Stat(l.path(unfinishedName))
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("disklog: %w", err)
	}
	return fmt.Errorf("%w: %s: remove the folder, and copy again", journal.ErrUnfinished, l.opts.opener)
}
