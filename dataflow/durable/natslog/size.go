package natslog

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

var (
	_ journal.Sized = (*Log)(nil)
	_ journal.Sized = (*sharedLog)(nil)
)

// Size returns the size of the two streams as the servers report it. If the server is in this
// process, it also returns the free space and the size of the file system.
func (l *Log) Size(ctx context.Context) (s journal.Size, err error) {
	s.MaxBytes = uint64(max(l.opts.MaxBytes, 0))
	if l.ctx.Err() != nil {
		return journal.Size{}, context.Cause(l.ctx)
	}
	for _, name := range []string{l.in(), l.st()} {
		stream, err := l.js.Stream(ctx, name)
		if err != nil {
			return journal.Size{}, fmt.Errorf("natslog: the size of the stream %s: %w", name, err)
		}
		info := stream.CachedInfo() // current, since Stream has just asked for it
		s.Bytes += info.State.Bytes
		s.Kept += info.State.Bytes
	}
	if l.embedded != nil {
		s.Free, s.Disk = room(l.opts.Dir)
	}
	return s, nil
}
