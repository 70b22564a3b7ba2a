package disklog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Sizes of what pebble keeps in memory. A memtable grows up to its size, and up to three more
// wait to be written to a table.
const (
	memtable   = 4 << 20
	memtables  = 4
	blockCache = 4 << 20
	openTables = 128
)

// Most records are purged soon, so tables of the first level wait for longer than by default
// until they are merged. Up to memtable*mergeTables bytes of purged records are on the disk meanwhile. Twice as
// many of twice the size write 2.8 instead of 3.9 bytes for each byte that is sent, and leave 128 MiB.
const (
	mergeTables = 8
	stopTables  = 24
)

// purgedFor is how long the files may have what was purged, if nothing else is written.
const purgedFor = 5 * time.Second

// storage returns the options of pebble. Its format is the first one whose tables have a
// checksum in their footer, and is later than that of write-ahead logs that say how far they
// were synced.
func (l *Log) storage(fs *files, existing bool) *pebble.Options {
	o := &pebble.Options{
		FS:                          fs,
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		ErrorIfNotExists:            existing,
		Cache:                       nil,
		CacheSize:                   blockCache,
		MemTableSize:                memtable,
		MemTableStopWritesThreshold: memtables,
		MaxOpenFiles:                openTables,
		L0CompactionThreshold:       mergeTables,
		L0StopWritesThreshold:       stopTables,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		FlushDelayDeleteRange:       purgedFor,
		Logger:                      storageLog{l},
		EventListener: &pebble.EventListener{
			BackgroundError: l.background,
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				l.logger.Error("a file is damaged", "file", info.Path, "error", info.Details)
			},
		},
	}
	o.Experimental.FileCacheShards = 1
	return o
}

// background is called when something fails that nobody waits for.
func (l *Log) background(err error) {
	if isDamage(err) {
		l.fail(l.damaged("%v", err))
		return
	}
	l.logger.Warn("a background task of the storage failed and is tried again", "error", err)
}

// isDamage reports whether an error of pebble says that a file is gone or has something else
// in it than was written.
func isDamage(err error) bool {
	return pebble.IsCorruptionError(err) || errors.Is(err, os.ErrNotExist) ||
		errors.Is(err, pebble.ErrDBDoesNotExist) || errors.Is(err, pebble.ErrDBNotPristine)
}

// A storageLog hands what pebble says to the logger. Pebble calls Fatalf where it expects the
// process to end, and goes on as if nothing had happened when it does not: so whatever is
// acknowledged after it asks first whether the log has failed.
type storageLog struct{ log *Log }

func (s storageLog) Infof(format string, args ...any) {
	if l := s.log.logger; l.Enabled(context.Background(), slog.LevelDebug) {
		l.Debug(logText(format, args))
	}
}

func (s storageLog) Errorf(format string, args ...any) { s.log.logger.Error(logText(format, args)) }

func (s storageLog) Fatalf(format string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok && isDamage(err) {
			s.log.fail(s.log.damaged("%s", logText(format, args)))
			return
		}
	}
	s.log.fail(fmt.Errorf("disklog: the storage of %s cannot go on: %s; close the log and open it again", s.log.opts, logText(format, args)))
}

func logText(format string, args []any) string {
	return strings.TrimSpace(fmt.Sprintf(format, args...))
}
