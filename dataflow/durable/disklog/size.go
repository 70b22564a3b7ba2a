package disklog

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

var _ journal.Sized = (*Log)(nil)

// Size returns the size of the files in the folder, and the room on its file system. The size
// includes the reserve and what pebble has not freed yet. Size looks only at names and lengths,
// because pebble's own figures need a lock that is held while a write waits for room.
func (l *Log) Size(ctx context.Context) (journal.Size, error) {
	if l.ctx.Err() != nil {
		return journal.Size{}, context.Cause(l.ctx)
	}
	room := l.bound.Room()
	s := journal.Size{Kept: uint64(room.Kept), MaxBytes: uint64(room.Limit)}
	for _, dir := range []string{l.opts.dir, l.path(storageName), l.path(recordsName)} {
		bytes, err := l.filesIn(dir)
		if err != nil {
			return journal.Size{}, fmt.Errorf("disklog: %w", err)
		}
		s.Bytes += bytes
	}
	// If the file system does not report its size, Free and Disk stay zero.
	if disk, err := l.opts.fs.GetDiskUsage(l.opts.dir); err == nil {
		s.Free, s.Disk = disk.AvailBytes, disk.TotalBytes
	}
	return s, context.Cause(ctx)
}

// filesIn returns the total size of the files in a folder.
func (l *Log) filesIn(dir string) (bytes uint64, err error) {
	names, err := l.opts.fs.List(dir)
	if err != nil {
		return 0, err
	}
	for _, name := range names {
		info, err := l.opts.fs.Stat(l.opts.fs.PathJoin(dir, name))
		switch {
		case errors.Is(err, os.ErrNotExist): // removed in the meantime
		case err != nil:
			return 0, err
		case !info.IsDir():
			bytes += uint64(info.Size())
		}
	}
	return bytes, nil
}
