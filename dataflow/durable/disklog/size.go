package disklog

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

var _ journal.Sized = (*Log)(nil)

// Size returns what the files of the folder take, with the reserve and with what pebble has not
// freed yet, and how much room its file system has. It looks at names and lengths only: what
// pebble itself knows is behind a lock that is held while a write waits for room.
func (l *Log) Size(ctx context.Context) (journal.Size, error) {
	if l.ctx.Err() != nil {
		return journal.Size{}, context.Cause(l.ctx)
	}
	room := l.bound.Room()
	s := journal.Size{Kept: uint64(room.Kept), MaxBytes: uint64(room.Limit)}
	for _, dir := range []string{l.opts.dir, l.path(storageName)} {
		bytes, err := l.filesIn(dir)
		if err != nil {
			return journal.Size{}, fmt.Errorf("disklog: %w", err)
		}
		s.Bytes += bytes
	}
	// A file system that does not say how full it is leaves that unknown.
	if disk, err := l.opts.fs.GetDiskUsage(l.opts.dir); err == nil {
		s.Free, s.Disk = disk.AvailBytes, disk.TotalBytes
	}
	return s, context.Cause(ctx)
}

// filesIn returns what the files of a folder take.
func (l *Log) filesIn(dir string) (bytes uint64, err error) {
	names, err := l.opts.fs.List(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		info, err := l.opts.fs.Stat(l.opts.fs.PathJoin(dir, name))
		switch {
		case errors.Is(err, os.ErrNotExist): // it has gone meanwhile
		case err != nil:
			return 0, err
		case !info.IsDir():
			bytes += uint64(info.Size())
		}
	}
	return bytes, nil
}
