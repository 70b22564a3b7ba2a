package disklog

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A room is what is known about the room on the disk. While the disk is full, nothing new is
// taken. What is under way is completed with the reserve, a file whose bytes are given back
// to the disk at that moment; if that does not suffice, it waits. The reserve is made again
// as soon as there is room, and then the log takes everything again.
type room struct {
	fs     vfs.FS
	path   string
	size   int64
	logger *slog.Logger
	told   func(error) // what waits to be written

	mu      sync.Mutex
	full    bool
	waiting int           // writes that wait for room
	ended   bool          // nothing waits any longer
	end     chan struct{} // closed then
	probes  sync.WaitGroup
}

// How often it is tried again to write what there was no room for, and to make the reserve.
const (
	writeAgain = 20 * time.Millisecond
	probeAgain = 100 * time.Millisecond
)

// isFull reports whether an error says that there is no room on the disk.
func isFull(err error) bool {
	return err != nil && (vfs.IsNoSpaceError(err) || errors.Is(err, syscall.ENOSPC) || isQuota(err))
}

func newRoom(fs vfs.FS, path string, size int64, logger *slog.Logger) *room {
	r := &room{fs: fs, path: path, size: size, logger: logger, end: make(chan struct{})}
	if info, err := fs.Stat(path); size == 0 || err == nil && info.Size() == size {
		return r
	}
	if err := r.reserve(); err != nil {
		r.mu.Lock()
		r.lost()
		r.mu.Unlock()
	}
	return r
}

// check returns ErrFull while the disk is full.
func (r *room) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full {
		return fmt.Errorf("%w on the disk of %s", journal.ErrFull, r.fs.PathDir(r.path))
	}
	return nil
}

// blocked reports whether something waits for room.
func (r *room) blocked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting > 0
}

// wait gives the reserve back and waits a little. It returns false when the log is ending.
func (r *room) wait(first bool) bool {
	r.mu.Lock()
	lost := !r.full
	r.lost()
	if first {
		r.waiting++
	}
	ended := r.ended
	r.mu.Unlock()
	if lost && r.told != nil {
		r.told(r.check())
	}
	if ended {
		return false
	}
	if first {
		return true // the reserve may be all that is needed
	}
	t := time.NewTimer(writeAgain)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.end:
		return false
	}
}

func (r *room) waited() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting--
}

// lost notes that the disk is full. It is called with the lock.
func (r *room) lost() {
	if r.full || r.ended {
		return
	}
	r.full = true
	if err := r.fs.Remove(r.path); err != nil {
		r.logger.Debug("the reserve is not there", "error", err)
	}
	r.logger.Error("the disk is full: nothing new is taken until there is room", "reserve", r.path)
	r.probes.Go(r.probe)
}

// probe makes the reserve again as soon as it can be made and nothing waits for room.
func (r *room) probe() {
	tick := time.NewTicker(probeAgain)
	defer tick.Stop()
	for {
		select {
		case <-r.end:
			return
		case <-tick.C:
		}
		if r.blocked() {
			continue
		}
		if r.reserve() == nil {
			r.mu.Lock()
			r.full = false
			r.mu.Unlock()
			r.logger.Info("there is room on the disk again", "reserve", r.path)
			return
		}
	}
}

// smallest is what has to fit to say that there is room, if no reserve is wanted.
const smallest = 64 << 10

// reserve makes the file. Zeros are written, since not every file system can set bytes aside.
func (r *room) reserve() (err error) {
	temporary := r.path + ".new"
	f, err := r.fs.Create(temporary, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil || r.size == 0 {
			err = errors.Join(err, r.fs.Remove(temporary))
		} else {
			err = r.fs.Rename(temporary, r.path)
		}
	}()
	left := r.size
	if left == 0 {
		left = smallest
	}
	for zeros := make([]byte, min(left, 256<<10)); left > 0; {
		n, err := f.Write(zeros[:min(left, int64(len(zeros)))])
		if err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

// close ends everything that waits for room. What waits is not written.
func (r *room) close() {
	r.mu.Lock()
	if !r.ended {
		r.ended = true
		close(r.end)
	}
	r.mu.Unlock()
	r.probes.Wait()
}
