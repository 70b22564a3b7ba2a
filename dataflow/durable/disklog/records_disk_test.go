package disklog_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// TestFullDiskForFiles fills a disk with messages that have files. Each is durable or refused as a whole, and the
// log takes more after a purge. When the disk becomes full, no file waits to be used again.
func TestFullDiskForFiles(t *testing.T) {
	t.Parallel()
	dir, d := t.TempDir(), newDisk(8<<20)
	opener := disklog.On(d, dir, small)
	l := openAs(t, opener, journal.OpenOptions{})
	purged := appendLarge(t, l, 0, "purged")
	if err := l.Purge(soon(t), 0, purged, 0); err != nil {
		t.Fatal(err)
	}
	if n := len(recordFiles(t, dir)); n != 1 {
		t.Errorf("%d files are to be used again", n)
	}
	for { // with messages that have none
		if _, err := l.Append(soon(t), 0, make([]byte, 100_000)); errors.Is(err, journal.ErrFull) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if files := recordFiles(t, dir); len(files) != 0 {
		t.Errorf("the disk is full, and there are %q", files)
	}
	if err := l.Purge(soon(t), 0, ^uint64(0), 0); err != nil {
		t.Fatal(err)
	}
	d.room.Add(8 << 20)
	k := load{}
	goesOn(t, l, &k)
	h, err := l.Restore(soon(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for n := 0; ; n++ {
		name := fmt.Sprint(n)
		_, err := l.Append(soon(t), 0, large(name)...)
		if errors.Is(err, journal.ErrFull) && n > 1 {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	wantMessages(t, l, 0, h.End, names...)
	if n := len(recordFiles(t, dir)); n != len(names) {
		t.Errorf("%d messages have %d files", len(names), n)
	}
	all, err := readAll(soon(t), l, 0, h.End)
	if err != nil {
		t.Fatal(err)
	}
	half := all[len(all)/2].Position
	if err := l.Purge(soon(t), 0, half, 0); err != nil {
		t.Fatal(err)
	}
	for ctx := soon(t); ; <-time.After(20 * time.Millisecond) {
		if _, err = l.Append(ctx, 0, large("after")...); err == nil {
			break
		}
		if !errors.Is(err, journal.ErrFull) || ctx.Err() != nil {
			t.Fatalf("there is room: %v", err)
		}
	}
	names = append(names[len(all)/2+1:], "after")
	wantMessages(t, l, 0, half, names...)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	wantMessages(t, openAs(t, opener, journal.OpenOptions{}), 0, half, names...)
}

// TestFilesAreSyncedFirst checks what is synced before a large message is acknowledged: its file, the folder if
// the file is new, and only then the write-ahead log with the message. So a loss of power leaves no message
// without its records.
func TestFilesAreSyncedFirst(t *testing.T) {
	t.Parallel()
	d := newDisk(1 << 40)
	var mu sync.Mutex
	var synced []string
	d.synced = func(path string) {
		mu.Lock()
		defer mu.Unlock()
		kind := filepath.Ext(path)
		if kind == "" {
			kind = filepath.Base(path)
		}
		synced = append(synced, kind)
	}
	l := openAs(t, disklog.On(d, t.TempDir(), small), journal.OpenOptions{})
	if _, err := l.Append(soon(t), 0, []byte("first")); err != nil { // it also makes numbers available
		t.Fatal(err)
	}
	for _, want := range [][]string{{".records", "records", ".log"}, {".records", ".log"}} {
		mu.Lock()
		synced = nil
		mu.Unlock()
		at := appendLarge(t, l, 0, "message")
		mu.Lock()
		if !slices.Equal(synced, want) {
			t.Errorf("%q were synced, want %q", synced, want)
		}
		mu.Unlock()
		if err := l.Purge(soon(t), 0, at, 0); err != nil {
			t.Fatal(err)
		}
	}
}
