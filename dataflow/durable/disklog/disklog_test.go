package disklog_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/journal/journaltest"
)

// quiet keeps what a log says out of the tests' output.
var quiet = slog.New(slog.DiscardHandler)

// soon is a context for what has to be over in moments, on a busy machine too.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// small keeps the tests from writing a large reserve for each folder.
var small = disklog.Options{Reserve: 1 << 20}

func openAs(t testing.TB, o journal.Opener, opts journal.OpenOptions) *disklog.Log {
	t.Helper()
	if opts.Logger == nil {
		opts.Logger = quiet
	}
	l, err := o.Open(soon(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.(*disklog.Log)
}

func open(t testing.TB, dir string, opts journal.OpenOptions) *disklog.Log {
	t.Helper()
	return openAs(t, disklog.DirWithOptions(dir, small), opts)
}

func TestContract(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, func(t *testing.T) journal.Log {
		return open(t, t.TempDir(), journal.OpenOptions{Partitions: 16})
	})
}
