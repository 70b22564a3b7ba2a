package natslog_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/journal/journaltest"
	"github.com/millrace/millrace/dataflow/durable/natslog"
)

// quiet discards log messages, so that the test output omits what servers log when they are
// killed.
var quiet = slog.New(slog.DiscardHandler)

// soon returns a context for operations that take moments, even on a busy machine.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func open(t testing.TB, opts natslog.Settings) *natslog.Log {
	t.Helper()
	opts.Logger = quiet
	l, err := natslog.Open(soon(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

func TestEmbedded(t *testing.T) {
	t.Parallel()
	journaltest.Run(t, func(t *testing.T) journal.Log {
		return open(t, natslog.Settings{Dir: t.TempDir(), OpenOptions: journal.OpenOptions{Partitions: 16}})
	})
}

func TestLimits(t *testing.T) {
	t.Parallel()
	journaltest.Limits(t, func(t *testing.T) journaltest.Reopen {
		dir, last := t.TempDir(), (*natslog.Log)(nil)
		return func(t *testing.T, maxBytes int64) journal.Log {
			if last != nil {
				last.Close()
			}
			last = open(t, natslog.Settings{Dir: dir, OpenOptions: journal.OpenOptions{Partitions: 2, MaxBytes: maxBytes}})
			return last
		}
	})
}

// TestReopen checks that a log contains everything after it is opened again, and that
// positions and fences continue.
func TestReopen(t *testing.T) {
	ctx, dir := soon(t), t.TempDir()
	l := open(t, natslog.Settings{Dir: dir, OpenOptions: journal.OpenOptions{Partitions: 2}})
	first, err := l.Append(ctx, 1, []byte("first"))
	if err != nil {
		t.Fatal(err)
	}
	fence, err := l.Commit(ctx, 1, 0, make([]byte, 10<<20))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, natslog.Settings{Dir: dir})
	if l.Partitions() != 2 {
		t.Errorf("%d partitions, want 2", l.Partitions())
	}
	second, err := l.Append(ctx, 1, []byte("second"))
	if err != nil || second <= first {
		t.Errorf("Append: position %d after %d, %v", second, first, err)
	}
	if h, err := l.Restore(ctx, 1); err != nil || h.Fence != fence || len(h.Steps[0].Data) != 10<<20 {
		t.Errorf("Restore: %v", err)
	}
	if _, err := l.Commit(ctx, 1, fence, nil); err != nil {
		t.Error(err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, natslog.Settings{Dir: filepath.Join(dir, "taken"), OpenOptions: journal.OpenOptions{Partitions: 4}})
	open(t, natslog.Settings{Dir: filepath.Join(dir, "four"), OpenOptions: journal.OpenOptions{Partitions: 4}}).Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		opts natslog.Settings
		want string // part of the message
	}{
		{"nothing", natslog.Settings{}, "needs the URLs"},
		{"name", natslog.Settings{Dir: dir, OpenOptions: journal.OpenOptions{Name: "a.b"}}, `"a.b"`},
		{"partitions", natslog.Settings{Dir: dir, OpenOptions: journal.OpenOptions{Partitions: 5000}}, "1 to 4096"},
		{"replicas", natslog.Settings{Options: natslog.Options{URLs: []string{"x"}, Replicas: 6}}, "1 to 5"},
		{"taken", natslog.Settings{Dir: filepath.Join(dir, "taken")}, "another process or another log"},
		{"other partitions", natslog.Settings{Dir: filepath.Join(dir, "four"), OpenOptions: journal.OpenOptions{Partitions: 8}}, "created with 4 partitions"},
		{"not a directory", natslog.Settings{Dir: file}, "file"},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.opts.Logger = quiet
			l, err := natslog.Open(soon(t), test.opts)
			if err == nil {
				l.Close()
				t.Fatal("opened")
			}
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v\nwants %q in it", err, test.want)
			}
		})
	}
}

// TestFull fills a log up to its limit. Acknowledged records stay. A purge or a higher
// limit makes room.
func TestFull(t *testing.T) {
	ctx, dir := soon(t), t.TempDir()
	l := open(t, natslog.Settings{Dir: dir, Options: natslog.Options{MaxStepBytes: 2 << 20}, OpenOptions: journal.OpenOptions{MaxBytes: 3 << 20}})
	record := make([]byte, 100<<10)
	var last uint64
	var err error
	kept := 0
	for err == nil && kept < 100 {
		var position uint64
		if position, err = l.Append(ctx, 0, record); err == nil {
			last = position
			kept++
		}
	}
	if !errors.Is(err, journal.ErrFull) || kept < 5 {
		t.Fatalf("after %d records: %v, want ErrFull", kept, err)
	}
	fence, err := l.Commit(ctx, 0, 0, []byte("a full inbox does not stop steps"))
	if err != nil {
		t.Fatal(err)
	}
	if u, err := l.Usage(ctx, 0); err != nil || u.Records != uint64(kept) {
		t.Errorf("usage %+v (%v), want %d messages", u, err, kept)
	}
	if err := l.Purge(ctx, 0, last, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append(ctx, 0, record); err != nil {
		t.Errorf("after the purge: %v", err)
	}
	for err = nil; err == nil; {
		var next uint64
		if next, err = l.Commit(ctx, 0, fence, record); err == nil {
			fence = next
		}
	}
	if !errors.Is(err, journal.ErrFull) {
		t.Fatalf("Commit: %v, want ErrFull", err)
	}
	if h, err := l.Restore(ctx, 0); err != nil || h.Fence != fence {
		t.Errorf("restored to %+v (%v), want fence %d", h, err, fence)
	}
	l.Close()
	l = open(t, natslog.Settings{Dir: dir})
	if _, err := l.Commit(ctx, 0, fence, record); err != nil {
		t.Errorf("with a higher limit: %v", err)
	}
}

// TestGathering checks that concurrent appends share messages and that the counters report
// it.
func TestGathering(t *testing.T) {
	ctx := soon(t)
	l := open(t, natslog.Settings{Dir: t.TempDir()})
	const callers, calls = 64, 20
	done := make(chan error)
	for range callers {
		go func() {
			for range calls {
				if _, err := l.Append(ctx, 0, make([]byte, 64)); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range callers {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	m := l.Metrics()
	if m.Records != callers*calls || m.Messages == 0 || m.Messages > m.Records/4 {
		t.Errorf("%d records in %d messages", m.Records, m.Messages)
	}
}

// TestCallersLeave cancels appends while they wait for their message, and checks that later
// appends are served.
func TestCallersLeave(t *testing.T) {
	l := open(t, natslog.Settings{Dir: t.TempDir()})
	for i := range 50 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
		if _, err := l.Append(ctx, 0, []byte("hasty")); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		cancel()
	}
	if _, err := l.Append(soon(t), 0, []byte("patient")); err != nil {
		t.Fatal(err)
	}
}

// TestUnreachable checks that Open retries until its context ends and that the error says
// what to do.
func TestUnreachable(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := natslog.Open(ctx, natslog.Settings{Options: natslog.Options{URLs: []string{"nats://user:secret@127.0.0.1:1"}}, OpenOptions: journal.OpenOptions{Logger: quiet}})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("Open: %v, want %v", err, context.DeadlineExceeded)
	}
	if text := err.Error(); !strings.Contains(text, "127.0.0.1:1") || !strings.Contains(text, "check that the servers run") || strings.Contains(text, "secret") {
		t.Error(text)
	}
}
