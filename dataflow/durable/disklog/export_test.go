package disklog

import (
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// On returns an opener whose files, except for the lock, are on fs.
func On(fs vfs.FS, dir string, o Options) journal.Opener { return opener{dir: dir, Options: o, fs: fs} }

// OfFormat returns an opener like [Dir] that makes logs of an earlier format.
func OfFormat(dir string, format int) journal.Opener {
	o := DirWithOptions(dir, Options{}).(opener)
	o.format = format
	return o
}

// WithSpares returns an opener like [Dir] with another time after which files that are not used again are removed.
func WithSpares(dir string, d time.Duration) journal.Opener {
	o := DirWithOptions(dir, Options{}).(opener)
	o.spareFor = d
	return o
}

// Submitted returns the number of changes that wait or are being written.
func (l *Log) Submitted() int {
	q := &l.queue
	q.mu.Lock()
	defer q.mu.Unlock()
	n := len(q.ops)
	if q.inFlight != nil {
		n += len(q.inFlight.ops)
	}
	return n
}

// ReadersAhead returns the number of readers that read a partition ahead.
func (l *Log) ReadersAhead(partition int) int { return int(l.partitions[partition].readAhead.Load()) }
