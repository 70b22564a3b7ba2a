package disklog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// files is the file system of pebble. After a failed write pebble panics, calls Fatalf, or retries
// in a tight loop. So files hides every failed write from it:
//
//   - A write for which there is no room waits until there is.
//   - Any other failure ends the log. From then on writes are discarded and succeed, so that pebble can be
//     closed. Nothing more is acknowledged, and everything acknowledged is on the disk.
//
// It also maintains the [mark].
type files struct {
	vfs.FS
	dir  string // the folder of pebble
	room *room
	fail func(error) // called with the first failure

	failed atomic.Bool

	mu     sync.Mutex
	mark   *mark
	synced []synced
}

// do makes a change to the disk, to the file at path or another one. It returns false if it did
// not, because the log has failed.
func (fs *files) do(what, path string, change func() error) bool {
	by := forLog
	if isTable(path) {
		by = forTable
	}
	for try := 1; ; try++ {
		if fs.failed.Load() {
			return false
		}
		err := error(syscall.ENOSPC)
		if !fs.room.held(by) {
			err = change()
		}
		if try > 1 && !isFull(err) {
			fs.room.waited(by)
		}
		if err == nil {
			return true
		}
		if !isFull(err) {
			fs.stop(fmt.Errorf("%s %s: %w", what, path, err))
			return false
		}
		if !fs.room.wait(by, try) {
			fs.room.waited(by)
			fs.stop(fmt.Errorf("%s %s: %w", what, path, err))
			return false
		}
	}
}

// stop ends the log. All later writes are discarded.
func (fs *files) stop(err error) {
	if fs.failed.CompareAndSwap(false, true) {
		fs.fail(err)
	}
}

// update calls change, which changes the content of the mark, and writes the mark.
func (fs *files) update(change func()) {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	change()
	fs.do("write", "the mark", func() error { return fs.mark.write(fs.synced) })
}

// forget removes from the mark a file that is about to be removed or reused.
func (fs *files) forget(path string) {
	kind, number, ok := fileKind(fs.PathBase(path))
	if !ok || fs.PathDir(path) != fs.dir {
		return
	}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	before := len(fs.synced)
	fs.synced = slices.DeleteFunc(fs.synced, func(s synced) bool { return s.kind == kind && s.number == number })
	if len(fs.synced) != before {
		fs.do("write", "the mark", func() error { return fs.mark.settle(fs.synced) })
	}
}

// wrap returns a file whose writes wait for room.
func (fs *files) wrap(path string, f vfs.File) vfs.File {
	w := &file{File: f, fs: fs, path: path}
	if kind, number, ok := fileKind(fs.PathBase(path)); ok && fs.PathDir(path) == fs.dir {
		w.now = synced{kind: kind, number: number}
	}
	return w
}

func (fs *files) Create(name string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	if !fs.do("create", name, func() error { f, err = fs.FS.Create(name, category); return err }) {
		return discarded{}, nil
	}
	return fs.wrap(name, f), nil
}

func (fs *files) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (f vfs.File, err error) {
	fs.forget(oldname)
	if !fs.do("reuse", oldname, func() error { f, err = fs.FS.ReuseForWrite(oldname, newname, category); return err }) {
		return discarded{}, nil
	}
	return fs.wrap(newname, f), nil
}

func (fs *files) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (f vfs.File, err error) {
	if !fs.do("open", name, func() error { f, err = fs.FS.OpenReadWrite(name, category, opts...); return err }) {
		return discarded{}, nil
	}
	return fs.wrap(name, f), nil
}

func (fs *files) OpenDir(name string) (vfs.File, error) {
	f, err := fs.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return fs.wrap(name, f), nil
}

func (fs *files) Link(oldname, newname string) error {
	fs.do("link", newname, func() error { return fs.FS.Link(oldname, newname) })
	return nil
}

func (fs *files) Rename(oldname, newname string) error {
	fs.do("rename", oldname, func() error { return fs.FS.Rename(oldname, newname) })
	return nil
}

func (fs *files) MkdirAll(dir string, perm os.FileMode) error {
	fs.do("make the folder", dir, func() error { return fs.FS.MkdirAll(dir, perm) })
	return nil
}

func (fs *files) Remove(name string) error {
	fs.forget(name)
	if fs.failed.Load() {
		return nil
	}
	return fs.FS.Remove(name)
}

func (fs *files) RemoveAll(name string) error {
	if fs.failed.Load() {
		return nil
	}
	return fs.FS.RemoveAll(name)
}

// Lock does nothing, because the folder is locked already.
func (fs *files) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (fs *files) Unwrap() vfs.FS { return fs.FS }

// A file is a file that pebble writes. Its writes and syncs are sequential.
type file struct {
	vfs.File
	fs   *files
	path string
	now  synced // what was written, if the mark records the file
}

// Write writes all of p, in several parts if there is no room for all of it at once.
func (f *file) Write(p []byte) (int, error) {
	if f.now.kind != 0 {
		f.now.sum = crc32.Update(f.now.sum, castagnoli, p)
		f.now.bytes += int64(len(p))
	}
	rest := p
	f.fs.do("write", f.path, func() error {
		n, err := f.File.Write(rest)
		rest = rest[n:]
		return err
	})
	return len(p), nil
}

func (f *file) WriteAt(p []byte, at int64) (int, error) {
	f.fs.do("write", f.path, func() error {
		_, err := f.File.WriteAt(p, at)
		return err
	})
	return len(p), nil
}

func (f *file) Sync() error {
	f.sync(f.File.Sync)
	return nil
}

func (f *file) SyncData() error {
	f.sync(f.File.SyncData)
	return nil
}

func (f *file) SyncTo(length int64) (full bool, err error) {
	if f.fs.failed.Load() {
		return false, nil
	}
	if full, err = f.File.SyncTo(length); err != nil {
		f.fs.stop(fmt.Errorf("sync %s: %w", f.path, err))
	}
	return full, nil
}

// sync is never repeated after a failure, because the operating system has discarded what it could
// not write.
func (f *file) sync(sync func() error) {
	if f.fs.failed.Load() {
		return
	}
	if err := sync(); err != nil {
		f.fs.stop(fmt.Errorf("sync %s: %w", f.path, err))
		return
	}
	if f.now.kind == 0 || f.now.bytes == 0 {
		return
	}
	f.fs.update(func() {
		i := slices.IndexFunc(f.fs.synced, func(s synced) bool { return s.kind == f.now.kind && s.number == f.now.number })
		if i < 0 {
			f.fs.synced = append(f.fs.synced, f.now)
		} else {
			f.fs.synced[i] = f.now
		}
	})
}

// Close closes the file. A failure does not affect what was synced.
func (f *file) Close() error {
	if err := f.File.Close(); err != nil && !errors.Is(err, os.ErrNotExist) {
		f.fs.stop(fmt.Errorf("close %s: %w", f.path, err))
	}
	return nil
}

// discarded is a file of a log that has failed.
type discarded struct{}

func (discarded) Close() error                           { return nil }
func (discarded) Read([]byte) (int, error)               { return 0, io.EOF }
func (discarded) ReadAt([]byte, int64) (int, error)      { return 0, io.EOF }
func (discarded) Write(p []byte) (int, error)            { return len(p), nil }
func (discarded) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (discarded) Preallocate(int64, int64) error         { return nil }
func (d discarded) Stat() (vfs.FileInfo, error)          { return d, nil }
func (discarded) Sync() error                            { return nil }
func (discarded) SyncTo(int64) (bool, error)             { return false, nil }
func (discarded) SyncData() error                        { return nil }
func (discarded) Prefetch(int64, int64) error            { return nil }
func (discarded) Fd() uintptr                            { return vfs.InvalidFd }
func (discarded) Name() string                           { return "discarded" }
func (discarded) Size() int64                            { return 0 }
func (discarded) Mode() os.FileMode                      { return 0o600 }
func (discarded) ModTime() time.Time                     { return time.Time{} }
func (discarded) IsDir() bool                            { return false }
func (discarded) Sys() any                               { return nil }
func (discarded) DeviceID() vfs.DeviceID                 { return vfs.DeviceID{} }
