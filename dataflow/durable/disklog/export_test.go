package disklog

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// On returns an opener whose files, but for the lock, are on fs.
func On(fs vfs.FS, dir string, o Options) journal.Opener { return opener{dir: dir, Options: o, fs: fs} }

// Submitted returns how many changes wait, or are under way.
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

// ReadersAhead returns how many readers read a partition ahead.
func (l *Log) ReadersAhead(partition int) int { return int(l.partitions[partition].readAhead.Load()) }
