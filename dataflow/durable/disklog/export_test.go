package disklog

import (
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// On returns an opener whose files, but for the lock, are on fs.
func On(fs vfs.FS, dir string, o Options) journal.Opener { return opener{dir: dir, Options: o, fs: fs} }
