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
	"github.com/cockroachdb/pebble/v2/sstable"
)

// Sizes of what pebble keeps in memory, besides memtables.
const (
	memtables  = 4 // one that is written to, and three that wait to be written to a table
	blockCache = 4 << 20
	openTables = 128
)

// A layout says how large a memtable grows, and how many tables the first level holds before they
// are merged. Larger sizes write less, because a snapshot purges most records soon and purged
// records are not merged. They also leave more purged records on the disk, up to memtable*tables bytes.
type layout struct{ memtable, tables int }

var (
	unbounded = layout{8 << 20, 16}
	bounded   = layout{4 << 20, 8}
)

// layoutFor returns the layout for a log that keeps at most maxBytes, zero if there is no bound.
func layoutFor(maxBytes int64) layout {
	if maxBytes == 0 || maxBytes >= 8*int64(unbounded.memtable*unbounded.tables) {
		return unbounded
	}
	return bounded
}

// stopTables is how many more tables stop writes.
const stopTables = 24

// storage returns the options of pebble. Its format is the first one whose tables have a
// checksum in their footer, and is later than that of write-ahead logs that say how far they
// were synced.
func (l *Log) storage(fs *files, existing bool) *pebble.Options {
	sizes := layoutFor(l.opts.MaxBytes)
	o := &pebble.Options{
		FS:                          fs,
		FormatMajorVersion:          pebble.FormatTableFormatV6,
		ErrorIfNotExists:            existing,
		Cache:                       nil,
		CacheSize:                   blockCache,
		MemTableSize:                uint64(sizes.memtable),
		MemTableStopWritesThreshold: memtables,
		MaxOpenFiles:                openTables,
		L0CompactionThreshold:       sizes.tables,
		L0StopWritesThreshold:       sizes.tables + stopTables,
		CompactionConcurrencyRange:  func() (int, int) { return 1, 1 },
		FlushDelayDeleteRange:       5 * time.Second, // what was purged is freed without further writes
		Logger:                      storageLog{l},
		EventListener: &pebble.EventListener{
			BackgroundError: l.background,
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				l.logger.Error("a file is damaged", "file", info.Path, "error", info.Details)
			},
		},
	}
	o.Experimental.FileCacheShards = 1
	o.Levels[0].Compression = func() *sstable.CompressionProfile { return sstable.NoCompression } // most of it is purged before a merge
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
		l.Debug(said(format, args))
	}
}

func (s storageLog) Errorf(format string, args ...any) { s.log.logger.Error(said(format, args)) }

func (s storageLog) Fatalf(format string, args ...any) {
	for _, a := range args {
		if err, ok := a.(error); ok && isDamage(err) {
			s.log.fail(s.log.damaged("%s", said(format, args)))
			return
		}
	}
	s.log.fail(fmt.Errorf("disklog: the storage of %s cannot go on: %s; close the log and open it again", s.log.opts, said(format, args)))
}

func said(format string, args []any) string { return strings.TrimSpace(fmt.Sprintf(format, args...)) }
