package disklog_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A disk has limited room. Room is what is left. Syncs return broken. syncing is called at each sync and may
// take its time as a disk does, and synced after it, with the path of the file or the folder. full is called when
// there is no room for a write. Each byte of a table takes greedy additional bytes of room.
type disk struct {
	vfs.FS
	room    atomic.Int64
	greedy  int64
	broken  atomic.Pointer[error]
	syncing func()
	synced  func(path string)
	full    func()
}

func newDisk(room int64) *disk {
	d := &disk{FS: vfs.Default}
	d.room.Store(room)
	return d
}

type diskFile struct {
	vfs.File
	disk *disk
	path string
	more int64 // additional bytes of room that each byte takes
}

func (d *disk) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, c)
	if err != nil {
		return nil, err
	}
	w := &diskFile{File: f, disk: d, path: name}
	if strings.HasSuffix(name, ".sst") {
		w.more = d.greedy
	}
	return w, nil
}

func (d *disk) ReuseForWrite(from, to string, c vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(from, to, c)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, disk: d, path: to}, nil
}

func (d *disk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, disk: d, path: name}, nil
}

func (d *disk) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	f, err := d.FS.OpenReadWrite(name, c, opts...)
	if err != nil {
		return nil, err
	}
	return &diskFile{File: f, disk: d, path: name}, nil
}

func (d *disk) Remove(name string) error {
	info, err := d.FS.Stat(name)
	if err == nil {
		d.room.Add(info.Size())
	}
	return d.FS.Remove(name)
}

func (d *disk) Unwrap() vfs.FS { return d.FS }

// Write writes as much as fits.
func (f *diskFile) Write(p []byte) (int, error) {
	left := f.disk.room.Add(-int64(len(p)))
	if left >= 0 {
		f.disk.room.Add(-min(left, f.more*int64(len(p))))
		return f.File.Write(p)
	}
	if f.disk.full != nil {
		f.disk.full()
	}
	fits := max(0, int64(len(p))+left)
	f.disk.room.Add(int64(len(p)) - fits)
	n, err := f.File.Write(p[:fits])
	return n, errors.Join(err, syscall.ENOSPC)
}

func (f *diskFile) sync(sync func() error) error {
	if err := f.disk.broken.Load(); err != nil {
		return *err
	}
	if f.disk.syncing != nil {
		f.disk.syncing()
	}
	err := sync()
	if f.disk.synced != nil {
		f.disk.synced(f.path)
	}
	return err
}

func (f *diskFile) Sync() error     { return f.sync(f.File.Sync) }
func (f *diskFile) SyncData() error { return f.sync(f.File.SyncData) }

// TestFullDisk fills a disk. Calls in progress are acknowledged and later ones refused, except for a purge.
// When there is room again, the log continues.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir, d := t.TempDir(), newDisk(12<<20)
	opener := disklog.On(d, dir, small)
	l := openAs(t, opener, journal.OpenOptions{Partitions: 2})
	var k load
	for round := range 3 {
		if err := k.run(soon(t), l, fmt.Sprint(round)); err != nil {
			t.Fatal(err)
		}
		if len(k.full) == 0 || len(k.acked) == 0 {
			t.Fatalf("%d were refused and %d acknowledged", len(k.full), len(k.acked))
		}
		k.check(t, l)
		// Rewriting a table may have made room meanwhile.
		if err := l.SaveSnapshot(soon(t), 0, 0, 0, nil); err != nil && !errors.Is(err, journal.ErrFull) {
			t.Errorf("SaveSnapshot: %v, want ErrFull", err)
		}
		d.room.Add(8 << 20)
		goesOn(t, l, &k)
		k.check(t, l)
	}
	if err := k.run(soon(t), l, "last"); err != nil {
		t.Fatal(err)
	}
	if err := l.Purge(soon(t), 0, k.position[0]-1, 0); err != nil {
		t.Errorf("a purge on a full disk: %v", err)
	}
	if err := l.Purge(soon(t), 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	d.room.Add(100 << 20)
	l = openAs(t, opener, journal.OpenOptions{Partitions: 2})
	if h, err := l.Restore(soon(t), 1); err != nil || h.Fence != k.fence[1] || len(h.Steps) != k.steps[1] {
		t.Errorf("restored %v", err)
	}
}

// TestPurgeWhileTablesFillTheDisk purges while tables that are written in the background take all room,
// including as much of the reserve as they get.
func TestPurgeWhileTablesFillTheDisk(t *testing.T) {
	t.Parallel()
	d := newDisk(12 << 20)
	d.greedy = 1000
	l := openAs(t, disklog.On(d, t.TempDir(), small), journal.OpenOptions{Partitions: 2})
	var k load
	if err := k.run(soon(t), l, "first"); err != nil {
		t.Fatal(err)
	}
	for upTo := range k.position[0] {
		if err := l.Purge(soon(t), 0, upTo+1, 0); err != nil {
			t.Fatalf("a purge up to %d on a full disk: %v", upTo+1, err)
		}
	}
	d.room.Add(1 << 30)
	goesOn(t, l, &k)
}

// closeSoon closes a log that cannot write anything. Close must not wait until it can.
func closeSoon(t *testing.T, l *disklog.Log) {
	t.Helper()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		l.Close() // its error reports the failed write
	}()
	select {
	case <-closed:
	case <-soon(t).Done():
		t.Fatal("Close hangs")
	}
}

// goesOn waits until a log accepts a step.
func goesOn(t *testing.T, l *disklog.Log, k *load) {
	t.Helper()
	for ctx := soon(t); ; <-time.After(20 * time.Millisecond) {
		fence, err := l.Commit(ctx, 0, k.fence[0], nil)
		if err == nil {
			k.fence[0] = fence
			k.steps[0]++
			return
		}
		if !errors.Is(err, journal.ErrFull) || ctx.Err() != nil {
			t.Fatalf("there is room: %v", err)
		}
	}
}

// TestFullDiskWithoutReserve checks that calls in progress wait until their context ends, and that their
// records exist afterwards.
func TestFullDiskWithoutReserve(t *testing.T) {
	t.Parallel()
	dir, d := t.TempDir(), newDisk(6<<20)
	opener := disklog.On(d, dir, disklog.Options{Reserve: -1})
	l := openAs(t, opener, journal.OpenOptions{Partitions: 2})
	var k load
	tired := errors.New("waited for a second since the disk was full")
	ctx, giveUp := context.WithCancelCause(soon(t))
	defer giveUp(nil)
	d.full = sync.OnceFunc(func() { time.AfterFunc(time.Second, func() { giveUp(tired) }) })
	// A call that is being written when the disk becomes full waits, and cannot know its outcome. If a table
	// is being written at that time, all calls are refused.
	if err := k.run(ctx, l, "first"); err != nil && !errors.Is(err, tired) || errors.Is(err, journal.ErrFull) {
		t.Fatalf("under way on a full disk: %v, want %v", err, tired)
	}
	switch _, err := l.Append(soon(t), 0, []byte("x")); {
	case err == nil: // rewriting a table has made room meanwhile
		k.acked = append(k.acked, "x")
	case !errors.Is(err, journal.ErrFull):
		t.Errorf("Append: %v, want ErrFull", err)
	}
	d.room.Add(20 << 20)
	goesOnAfter(t, l, &k)
	k.check(t, l)

	// Close does not wait for room either.
	d.room.Store(0)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := k.run(ctx, l, "second"); err == nil {
		t.Fatal("there is no room")
	}
	closeSoon(t, l)
	if _, err := opener.Open(soon(t), journal.OpenOptions{Logger: quiet}); !errors.Is(err, journal.ErrFull) {
		t.Errorf("Open: %v, want ErrFull", err)
	}
	d.room.Store(20 << 20)
	l = openAs(t, opener, journal.OpenOptions{})
	k.check(t, l)
}

// goesOnAfter is goesOn after a commit with an unknown outcome.
func goesOnAfter(t *testing.T, l *disklog.Log, k *load) {
	t.Helper()
	h, err := l.Restore(soon(t), 0)
	if err != nil {
		t.Fatal(err)
	}
	k.fence[0], k.steps[0] = h.Fence, len(h.Steps)
	goesOn(t, l, k)
}

// TestBrokenDisk checks that a failed sync ends the log with an error that says what to do, and that a
// reopened log contains everything that was acknowledged.
func TestBrokenDisk(t *testing.T) {
	t.Parallel()
	dir, d := t.TempDir(), newDisk(1<<40)
	opener := disklog.On(d, dir, small)
	l := openAs(t, opener, journal.OpenOptions{Partitions: 2})
	var k load
	time.AfterFunc(50*time.Millisecond, func() {
		err := error(syscall.EIO)
		d.broken.Store(&err)
	})
	err := k.run(soon(t), l, "first")
	if text := fmt.Sprint(err); !errors.Is(err, syscall.EIO) || errors.Is(err, journal.ErrFull) || !strings.Contains(text, dir) || !strings.Contains(text, "open it again") {
		t.Errorf("a failed sync: %v", err)
	}
	if _, err := l.Restore(soon(t), 0); !errors.Is(err, syscall.EIO) {
		t.Errorf("Restore: %v", err)
	}
	closeSoon(t, l)
	d.broken.Store(nil)
	l = openAs(t, opener, journal.OpenOptions{})
	k.check(t, l)
}

// TestFullAtStart creates a log on a disk without room for it.
func TestFullAtStart(t *testing.T) {
	t.Parallel()
	for _, room := range []int64{0, 5, 100, 3000} {
		dir, d := filepath.Join(t.TempDir(), "state"), newDisk(room)
		opener := disklog.On(d, dir, small)
		if _, err := opener.Open(soon(t), journal.OpenOptions{Logger: quiet}); !errors.Is(err, journal.ErrFull) {
			t.Errorf("room for %d bytes: %v, want ErrFull", room, err)
		}
		d.room.Store(10 << 20)
		openAs(t, opener, journal.OpenOptions{Partitions: 2})
		if _, err := os.Stat(filepath.Join(dir, "identity")); err != nil {
			t.Error(err)
		}
	}
}
