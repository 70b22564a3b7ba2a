package disklog_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// large returns the records of an append that has a file. Each begins with name.
func large(name string) [][]byte {
	records := make([][]byte, 100)
	for i := range records {
		records[i] = fmt.Appendf(nil, "%s %d %s", name, i, strings.Repeat("x", 3000))
	}
	return records
}

// appendLarge appends large records and returns their position.
func appendLarge(t testing.TB, l *disklog.Log, partition int, name string) uint64 {
	t.Helper()
	position, err := l.Append(soon(t), partition, large(name)...)
	if err != nil {
		t.Fatal(err)
	}
	return position
}

// recordFiles returns the names of the files for records in a folder of a log.
func recordFiles(t testing.TB, dir string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "records", "*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

// readAll returns the messages of a partition after a position, up to the last one.
func readAll(ctx context.Context, l *disklog.Log, partition int, after uint64) (all []journal.Message, err error) {
	r, err := l.Read(ctx, partition, after)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	last, err := r.Last(ctx)
	for at := after; err == nil && at < last; {
		var messages []journal.Message
		messages, err = r.Next(ctx, 1<<20)
		for _, m := range messages {
			all, at = append(all, m), m.Position
		}
	}
	return all, err
}

// wantMessages checks that a partition has the large messages with names, and nothing else.
func wantMessages(t testing.TB, l *disklog.Log, partition int, after uint64, names ...string) {
	t.Helper()
	all, err := readAll(soon(t), l, partition, after)
	if err != nil {
		t.Error(err)
	}
	var got []string
	for _, m := range all {
		name, _, _ := strings.Cut(string(m.Records[0]), " ")
		got = append(got, name)
		if !slices.EqualFunc(m.Records, large(name), bytes.Equal) {
			t.Errorf("partition %d: the message %s has other records", partition, name)
		}
	}
	if !slices.Equal(got, names) {
		t.Errorf("partition %d after %d has %q, want %q", partition, after, got, names)
	}
}

// TestRecordsInFiles appends messages that have files, reads them, also after the log was opened again, and
// purges them. The files of a partition go, and those of the other one stay.
func TestRecordsInFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, journal.OpenOptions{Partitions: 2})
	first := appendLarge(t, l, 0, "a")
	appendLarge(t, l, 1, "b")
	appendLarge(t, l, 0, "c")
	if n := len(recordFiles(t, dir)); n != 3 {
		t.Errorf("three messages have %d files", n)
	}
	for range 2 {
		wantMessages(t, l, 0, 0, "a", "c")
		wantMessages(t, l, 0, first, "c")
		wantMessages(t, l, 1, 0, "b")
		if u, err := l.Usage(soon(t), 0); err != nil || u.Records != 2 || u.Bytes < 600_000 {
			t.Errorf("the usage is %+v, %v", u, err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(t, dir, journal.OpenOptions{})
	}
	if err := l.Purge(soon(t), 0, first, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Read(soon(t), 0, 0); !errors.Is(err, journal.ErrPurged) {
		t.Errorf("what was purged is read: %v", err)
	}
	wantMessages(t, l, 0, first, "c")
	appendLarge(t, l, 0, "d") // into the file that is not needed any longer
	if n := len(recordFiles(t, dir)); n != 3 {
		t.Errorf("three messages have %d files", n)
	}
	wantMessages(t, l, 0, first, "c", "d")
	wantMessages(t, l, 1, 0, "b")
	if err := l.Purge(soon(t), 0, ^uint64(0), 0); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(recordFiles(t, dir)); n != 1 {
		t.Errorf("the message that was not purged has %d files", n)
	}
	wantMessages(t, open(t, dir, journal.OpenOptions{}), 1, 0, "b")
}

// TestFilesAreUsedAgain appends and purges many messages. There are never more files than messages at one time
// need, with those that are kept to be used again.
func TestFilesAreUsedAgain(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, journal.OpenOptions{})
	for n := range 40 {
		at := appendLarge(t, l, 0, fmt.Sprint(n))
		if n%2 == 1 {
			if err := l.Purge(soon(t), 0, at, 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := len(recordFiles(t, dir)); n != 2 {
		t.Errorf("there are %d files, and at most two messages were there at one time", n)
	}
	// A file that would be mostly empty is not used.
	if _, err := l.Append(soon(t), 0, make([]byte, 2<<20)); err != nil {
		t.Fatal(err)
	}
	if err := l.Purge(soon(t), 0, ^uint64(0), 0); err != nil {
		t.Fatal(err)
	}
	purged := appendLarge(t, l, 0, "first")
	for range 2 {
		appendLarge(t, l, 0, "later")
	}
	if n := len(recordFiles(t, dir)); n != 4 {
		t.Errorf("there are %d files, want 4: three of messages, and a large one", n)
	}
	if err := l.Purge(soon(t), 0, purged, 0); err != nil {
		t.Fatal(err)
	}
	wantMessages(t, l, 0, purged, "later", "later")
}

// TestReaderBehindAPurge purges the message that a reader reads next, and has its file used again. The reader is
// told that the message was purged, and not that it is damaged.
func TestReaderBehindAPurge(t *testing.T) {
	t.Parallel()
	l := open(t, t.TempDir(), journal.OpenOptions{})
	for round := range 50 {
		after := appendLarge(t, l, 0, "before")
		appendLarge(t, l, 0, "purged")
		var group sync.WaitGroup
		group.Go(func() {
			all, err := readAll(soon(t), l, 0, after)
			switch {
			case errors.Is(err, journal.ErrPurged) || err == nil && len(all) == 0:
			case err != nil:
				t.Errorf("round %d: %v", round, err)
			case !bytes.HasPrefix(all[0].Records[0], []byte("purged ")):
				t.Errorf("round %d: it has read %.20q", round, all[0].Records[0])
			}
		})
		if err := l.Purge(soon(t), 0, ^uint64(0), 0); err != nil {
			t.Fatal(err)
		}
		appendLarge(t, l, 0, "over it")
		group.Wait()
	}
}

// TestDamagedFiles damages the file of a message. If it is missing, the log is not opened; otherwise the
// partition is damaged where it is read, and the other one is not.
func TestDamagedFiles(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		damage func(path string) error
		opened bool
		want   string
	}{
		"missing": {os.Remove, false, "file does not exist"},
		"cut":     {func(path string) error { return os.Truncate(path, 1000) }, true, "it has 1000 bytes"},
		"changed": {func(path string) error {
			b, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, flipped(b, len(b)/2), 0o600)
			}
			return err
		}, true, "checksum"},
	} {
		dir := t.TempDir()
		l := open(t, dir, journal.OpenOptions{Partitions: 2})
		appendLarge(t, l, 0, "whole")
		there := recordFiles(t, dir)
		appendLarge(t, l, 1, "damaged")
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		files := slices.DeleteFunc(recordFiles(t, dir), func(f string) bool { return slices.Contains(there, f) })
		if len(files) != 1 {
			t.Fatalf("the second message has the files %q", files)
		}
		if err := test.damage(files[0]); err != nil {
			t.Fatal(err)
		}
		again, err := disklog.DirWithOptions(dir, small).Open(soon(t), journal.OpenOptions{Logger: quiet})
		if opened := err == nil; opened != test.opened {
			t.Errorf("%s: opened: %v", name, err)
		}
		if err == nil {
			l = again.(*disklog.Log)
			wantMessages(t, l, 0, 0, "whole")
			_, err = readAll(soon(t), l, 1, 0)
			l.Close()
		}
		for _, part := range []string{test.want, "partition 1", filepath.Base(files[0]), dir, "put back what was lost"} {
			if !errors.Is(err, journal.ErrDamaged) || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %v\nwants %q in it", name, err, part)
			}
		}
	}
}

// TestFilesOfACrash checks that files to which no message refers, as a crash leaves them, are removed.
func TestFilesOfACrash(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, dir, journal.OpenOptions{})
	appendLarge(t, l, 0, "kept")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "records", "12345.records"), []byte("left"), 0o600); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, journal.OpenOptions{})
	if files := recordFiles(t, dir); len(files) != 1 {
		t.Errorf("there are %q", files)
	}
	wantMessages(t, l, 0, 0, "kept")
}

// TestEarlierFormat opens a log of a format without files for records. It stays one until the first message that
// has a file, and everything in it can be read.
func TestEarlierFormat(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	says := func() string {
		text, err := os.ReadFile(filepath.Join(dir, "identity"))
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(text), "\n")
		return line
	}
	l := openAs(t, disklog.OfFormat(dir, 1), journal.OpenOptions{})
	id := l.Identity()
	step := func(l *disklog.Log, fence uint64) uint64 {
		if _, err := l.Append(soon(t), 0, []byte("small")); err != nil {
			t.Fatal(err)
		}
		fence, err := l.Commit(soon(t), 0, fence, []byte("step"))
		if err != nil {
			t.Fatal(err)
		}
		return fence
	}
	fence := step(l, 0)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l = open(t, dir, journal.OpenOptions{})
	fence = step(l, fence)
	if got := says(); got != "millrace disklog format 1" {
		t.Errorf("before the first file it says %q", got)
	}
	appendLarge(t, l, 0, "large")
	if got := says(); got != "millrace disklog format 2" {
		t.Errorf("after the first file it says %q", got)
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		l = open(t, dir, journal.OpenOptions{})
		all, err := readAll(soon(t), l, 0, 0)
		if err != nil || len(all) < 3 || string(all[0].Records[0]) != "small" || !bytes.HasPrefix(all[2].Records[0], []byte("large ")) {
			t.Errorf("it has %d messages: %v", len(all), err)
		}
		if l.Identity() != id {
			t.Error("it has another identity")
		}
		fence = step(l, fence)
	}
}

// TestSparesAreRemoved checks that the file of a purged message is removed after a while if no other message uses
// it, also while other messages are purged.
func TestSparesAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := openAs(t, disklog.WithSpares(dir, 20*time.Millisecond), journal.OpenOptions{})
	purge := func(at uint64, err error) {
		t.Helper()
		if err == nil {
			err = l.Purge(soon(t), 0, at, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	purge(l.Append(soon(t), 0, make([]byte, 2<<20))) // too large for those that follow
	unused := recordFiles(t, dir)
	for ctx := soon(t); slices.Contains(recordFiles(t, dir), unused[0]); {
		if purge(l.Append(soon(t), 0, large("later")...)); ctx.Err() != nil {
			t.Fatal("a file that no message uses stays")
		}
	}
	for ctx := soon(t); len(recordFiles(t, dir)) > 0; <-time.After(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatalf("there are still %q", recordFiles(t, dir))
		}
	}
	purge(l.Append(soon(t), 0, large("last")...))
}
