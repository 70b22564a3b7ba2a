package disklog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Options are settings of the log in a folder that [journal.OpenOptions] do not have. The
// zero value is right for most programs.
type Options struct {
	// Reserve is how many bytes of the disk are set aside, in a file of zeros, for what is
	// under way when the disk is full: steps, snapshots, and appends of at most 256 KiB. Larger
	// appends are refused. Zero means 16 MiB. A negative number means none: then what is under
	// way waits until there is room. A quarter of it is a file of its own, which tables do not
	// get: however much is merged in the background, a purge finds room.
	Reserve int64
}

// MaxAppend is how many bytes the records of one Append may have together.
const MaxAppend = 8 << 20

// defaultReserve is enough for what one batch writes, and for the tables of some memtables.
const defaultReserve = 16 << 20

// Dir returns an opener of the log in a folder. A folder that is not there is made. One
// log at a time has it open: a second one, in this process or another, is refused. The opener
// may be used again when the log is closed.
func Dir(dir string) journal.Opener { return DirWithOptions(dir, Options{}) }

// DirWithOptions is [Dir] with options.
func DirWithOptions(dir string, o Options) journal.Opener {
	return opener{dir: dir, Options: o, fs: owned{vfs.Default}}
}

type opener struct {
	Options
	dir      string
	fs       vfs.FS
	format   int           // of a new log; zero means the latest
	spareFor time.Duration // zero means purgedFor
}

func (o opener) Open(ctx context.Context, opts journal.OpenOptions) (journal.Log, error) {
	s, err := settings{OpenOptions: opts, opener: o}.completed()
	if err != nil {
		return nil, err
	}
	l, err := openLog(ctx, s)
	if err != nil {
		return nil, err // and not a nil *Log in an interface
	}
	return l, nil
}

// Folder returns the folder that the log is in.
func (o opener) Folder() string { return o.dir }

func (o opener) String() string { return "the log in " + o.dir }

// Settings are all that is said about a log.
type settings struct {
	opener
	journal.OpenOptions
}

// wellNamed is what a name may be, as in the other logs.
var wellNamed = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// maxPartitions is as many as in the other logs.
const maxPartitions = 4096

// completed returns the settings with defaults in place of zeros, or what is wrong.
func (s settings) completed() (settings, error) {
	if s.Name == "" {
		s.Name = "millrace"
	}
	if s.Logger == nil {
		s.Logger = slog.Default()
	}
	switch {
	case s.dir == "":
		return s, errors.New("disklog: Dir needs the name of a folder")
	case !wellNamed.MatchString(s.Name):
		return s, fmt.Errorf("disklog: the name %q has something else than letters, digits, - and _", s.Name)
	case s.Partitions < 0 || s.Partitions > maxPartitions:
		return s, fmt.Errorf("disklog: %d partitions, there may be 1 to %d", s.Partitions, maxPartitions)
	case s.MaxBytes < 0:
		return s, errors.New("disklog: MaxBytes is negative")
	}
	if s.Reserve == 0 {
		s.Reserve = defaultReserve
	}
	s.Reserve = max(s.Reserve, 0)
	return s, nil
}
