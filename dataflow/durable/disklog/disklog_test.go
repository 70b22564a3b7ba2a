package disklog_test

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/dataflow/durable/journal/journaltest"
)

// quiet discards what a log reports.
var quiet = slog.New(slog.DiscardHandler)

// soon returns a context for operations that take moments. It allows for a busy machine.
func soon(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// small has a small reserve, so that tests do not write a large one to each folder.
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

func TestLimits(t *testing.T) {
	t.Parallel()
	journaltest.Limits(t, func(t *testing.T) journaltest.Reopen {
		dir, last := t.TempDir(), (*disklog.Log)(nil)
		return func(t *testing.T, maxBytes int64) journal.Log {
			if last != nil {
				last.Close()
			}
			last = open(t, dir, journal.OpenOptions{Partitions: 2, MaxBytes: maxBytes})
			return last
		}
	})
}

// TestReopen checks that a reopened log contains everything, also after a purge, and that its
// numbers continue.
func TestReopen(t *testing.T) {
	t.Parallel()
	ctx, dir := soon(t), t.TempDir()
	l := open(t, dir, journal.OpenOptions{Partitions: 2})
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
	l = open(t, dir, journal.OpenOptions{Existing: true})
	if l.Partitions() != 2 {
		t.Errorf("%d partitions, want 2", l.Partitions())
	}
	second, err := l.Append(ctx, 1, []byte("second"))
	if err != nil || second <= first || second > first+3 {
		t.Errorf("Append: position %d after %d, %v", second, first, err)
	}
	h, err := l.Restore(ctx, 1)
	if err != nil || h.Fence != fence || len(h.Steps[0].Data) != 10<<20 || h.End != second {
		t.Errorf("Restore: %v", err)
	}
	if fence, err = l.Commit(ctx, 1, fence, nil); err != nil {
		t.Error(err)
	}
	if err := l.SaveSnapshot(ctx, 1, 0, fence, []byte("state")); err != nil {
		t.Error(err)
	}
	if err := l.Purge(ctx, 1, second, fence); err != nil {
		t.Error(err)
	}
	before, err := l.Usage(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	l = open(t, dir, journal.OpenOptions{Partitions: 2})
	if h, err = l.Restore(ctx, 1); err != nil || h.End != second || h.Fence != fence || string(h.Snapshot) != "state" {
		t.Errorf("after a purge of everything: %+v (%v), want the end %d and the fence %d", h, err, second, fence)
	}
	if after, err := l.Usage(ctx, 1); err != nil || after != before || after.Records != 0 || after.Steps != 1 {
		t.Errorf("usage %+v (%v), before %+v", after, err, before)
	}
	if _, err := l.Read(ctx, 1, first); !errors.Is(err, journal.ErrPurged) {
		t.Errorf("Read after %d: %v, want ErrPurged", first, err)
	}
	third, err := l.Append(ctx, 1, []byte("third"))
	if err != nil || third <= fence {
		t.Errorf("Append: position %d after %d, %v", third, fence, err)
	}
	if _, err := l.Commit(ctx, 1, 0, nil); !errors.Is(err, journal.ErrFenced) {
		t.Errorf("a zombie: %v", err)
	}
	r, err := l.Read(ctx, 1, second)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if m, err := r.Next(ctx, 0); err != nil || string(m[0].Records[0]) != "third" || m[0].Position != third {
		t.Errorf("read %v, %v", m, err)
	}
}

// TestRemoved removes the folder of an open log.
func TestRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	l := open(t, dir, journal.OpenOptions{})
	was := l.Identity()
	if _, err := l.Append(soon(t), 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Skip("a folder in use cannot be removed here:", err)
	}
	again := open(t, dir, journal.OpenOptions{})
	if again.Identity() == was {
		t.Error("a log that was made anew has the identity of the one before")
	}
	if _, err := l.Append(soon(t), 0, []byte("y")); !errors.Is(err, journal.ErrDamaged) || !errors.Is(err, journal.ErrUnknown) {
		t.Errorf("Append to a log that was removed: %v, want ErrDamaged", err)
	}
	if _, err := l.Restore(soon(t), 0); !errors.Is(err, journal.ErrDamaged) {
		t.Errorf("Restore of a log that was removed: %v, want ErrDamaged", err)
	}
	again.Close()
	if l := open(t, dir, journal.OpenOptions{}); l.Identity() != again.Identity() {
		t.Error("the identity has changed")
	}
}

// TestRefusals checks that a log that is not the requested one is refused with a message that says
// why.
func TestRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	open(t, in("taken"), journal.OpenOptions{Partitions: 4})
	open(t, in("four"), journal.OpenOptions{Partitions: 4}).Close()
	open(t, in("later"), journal.OpenOptions{}).Close()
	later, err := os.ReadFile(filepath.Join(in("later"), "identity"))
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ := strings.Cut(strings.Replace(string(later), "format 2", "format 3", 1), "checksum")
	text += fmt.Sprintf("checksum %08x\n", crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)))
	for name, data := range map[string]string{"file": "", "later/identity": text} {
		if err := os.WriteFile(in(name), []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"nats/jetstream", "empty"} {
		if err := os.MkdirAll(in(name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name, dir string
		opts      journal.OpenOptions
		want      string // part of the message
		is        error
	}{
		{"nothing", "", journal.OpenOptions{}, "needs the name of a folder", nil},
		{"name", in("new"), journal.OpenOptions{Name: "a.b"}, `"a.b"`, nil},
		{"partitions", in("new"), journal.OpenOptions{Partitions: 5000}, "1 to 4096", nil},
		{"a negative limit", in("new"), journal.OpenOptions{MaxBytes: -1}, "negative", nil},
		{"taken", in("taken"), journal.OpenOptions{}, "another process or another log", nil},
		{"taken, to look at", in("taken"), journal.OpenOptions{Existing: true}, "look at a copy", nil},
		{"other partitions", in("four"), journal.OpenOptions{Partitions: 8}, "created with 4 partitions", nil},
		{"other name", in("four"), journal.OpenOptions{Name: "other"}, `created with the name "millrace"`, nil},
		{"other name, to look at", in("four"), journal.OpenOptions{Name: "other", Existing: true}, `there is "millrace"`, journal.ErrMissing},
		{"other format", in("later"), journal.OpenOptions{}, "has the format 3", nil},
		{"not a folder", in("file"), journal.OpenOptions{}, "not a folder", nil},
		{"not a folder, to look at", in("file"), journal.OpenOptions{Existing: true}, "not a folder", journal.ErrMissing},
		{"no folder", in("none"), journal.OpenOptions{Existing: true}, "no such folder", journal.ErrMissing},
		{"nothing there", in("empty"), journal.OpenOptions{Existing: true}, "no log was ever made", journal.ErrMissing},
		{"a log of the server", in("nats"), journal.OpenOptions{}, "natslog.Embedded", nil},
	} {
		test.opts.Logger = quiet
		l, err := disklog.DirWithOptions(test.dir, small).Open(soon(t), test.opts)
		if err == nil {
			l.Close()
			t.Errorf("%s: opened", test.name)
		} else if !strings.Contains(err.Error(), test.want) || test.is != nil && !errors.Is(err, test.is) || test.is == nil && errors.Is(err, journal.ErrMissing) {
			t.Errorf("%s: %v\nwants %q in it", test.name, err, test.want)
		}
	}
	for _, name := range []string{"none", "empty/lock"} {
		if _, err := os.Stat(in(name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("looking has made %s", name)
		}
	}
}

// TestMaxBytes fills a log to its limit. Acknowledged records stay and steps continue. A purge
// makes room, also after a restart, and so does a higher limit.
func TestMaxBytes(t *testing.T) {
	t.Parallel()
	ctx, dir := soon(t), t.TempDir()
	const limit = 1 << 20
	l := open(t, dir, journal.OpenOptions{MaxBytes: limit})
	record := make([]byte, 100<<10)
	fill := func() (last uint64, kept int) {
		for {
			position, err := l.Append(ctx, 0, record)
			if errors.Is(err, journal.ErrFull) {
				return last, kept
			}
			if err != nil || kept > 10 {
				t.Fatalf("after %d records: %v, want ErrFull", kept, err)
			}
			last = position
			kept++
		}
	}
	last, kept := fill()
	if kept != 4 { // three fifths of the limit are reserved for other uses than sends
		t.Fatalf("%d records were kept, want 4", kept)
	}
	if _, err := l.Commit(ctx, 0, 0, record); err != nil {
		t.Errorf("records that are full do not stop steps: %v", err)
	}
	if err := l.Purge(ctx, 0, last-1, 0); err != nil {
		t.Fatal(err)
	}
	l.Close()
	l = open(t, dir, journal.OpenOptions{MaxBytes: limit})
	if _, kept := fill(); kept != 2 {
		t.Errorf("after a purge %d more were kept, want 2 besides a record and a step", kept)
	}
	l.Close()
	l = open(t, dir, journal.OpenOptions{})
	if _, err := l.Append(ctx, 0, record); err != nil {
		t.Errorf("without a limit: %v", err)
	}
	if u, err := l.Usage(ctx, 0); err != nil || u.Records != 4 || u.Bytes < 5*uint64(len(record)) {
		t.Errorf("usage %+v, %v", u, err)
	}
}

// TestCallersLeave cancels the contexts of callers at various moments and checks that later callers
// are served.
func TestCallersLeave(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), journal.OpenOptions{})
	for i := range 100 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i)*20*time.Microsecond)
		record := []byte("hasty")
		if _, err := l.Append(ctx, 0, record); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Fatal(err)
		}
		clear(record) // a caller may reuse its record at once
		cancel()
	}
	last, err := l.Append(soon(t), 0, []byte("patient"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.Read(soon(t), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for at := uint64(0); at < last; {
		messages, err := r.Next(soon(t), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range messages {
			at = m.Position
			for _, record := range m.Records {
				if s := string(record); s != "hasty" && s != "patient" {
					t.Errorf("read %q", s)
				}
			}
		}
	}
}

// TestMix runs all operations on all partitions at once and closes the log while they run.
func TestMix(t *testing.T) {
	t.Parallel()
	ctx := soon(t)
	l := open(t, t.TempDir(), journal.OpenOptions{Partitions: 4})
	var wg sync.WaitGroup
	for p := range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := l.Append(ctx, p, make([]byte, 2000), nil); err != nil {
					if !errors.Is(err, journal.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
		wg.Go(func() {
			r, err := l.Read(ctx, p, 0)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			fence, saved := uint64(0), uint64(0)
			for n := 1; ; n++ {
				messages, err := r.Next(ctx, 1<<20)
				if err == nil {
					fence, err = l.Commit(ctx, p, fence, make([]byte, n%10*50_000))
				}
				if err == nil && n%7 == 0 {
					if err = l.SaveSnapshot(ctx, p, saved, fence, make([]byte, n%3*400_000)); err == nil {
						saved = fence
					}
				}
				if err == nil && n%14 == 0 {
					err = l.Purge(ctx, p, messages[len(messages)-1].Position, fence)
				}
				if errors.Is(err, journal.ErrClosed) {
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for ctx.Err() == nil {
				h, err := l.Restore(ctx, p)
				if errors.Is(err, journal.ErrClosed) {
					return
				}
				if err != nil || h.Fence < h.At {
					t.Errorf("Restore: %v", err)
					return
				}
			}
		})
	}
	<-time.After(1500 * time.Millisecond)
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
}
