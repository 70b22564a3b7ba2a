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

// A room tracks the free space on the disk. While the disk is full, nothing new is accepted. Writes in
// progress are completed with the reserve, a file that is then removed to free its bytes. If that does
// not suffice, they wait. As soon as there is room, the reserve is created again, and then the log
// accepts everything again.
//
// A merged table can be larger than any reserve. So a quarter of the reserve is a
// separate file, which is removed only for the write-ahead log and other small files.
// While it is removed, no table is written.
type room struct {
	fs     vfs.FS
	shared reserve
	own    reserve // the part that tables cannot use
	logger *slog.Logger
	onFull func(error) // called when the disk becomes full, for operations that wait to be written

	mu         sync.Mutex
	full       bool
	ownRemoved bool          // the own reserve is removed
	waiting    [uses]int     // writes that wait for room
	ended      bool          // nothing waits any longer
	end        chan struct{} // closed when ended is set
	probes     sync.WaitGroup
}

// A use is the purpose of a write.
type use int

const (
	forLog   use = iota // the write-ahead log, the mark and other small files
	forTable            // a table, which is written in the background
	uses
)

// A reserve is a file of zeros.
type reserve struct {
	path string
	size int64
}

// How often a write for which there was no room, and the creation of the reserve, are tried again.
const (
	writeAgain = 20 * time.Millisecond
	probeAgain = 100 * time.Millisecond
)

// isFull reports whether an error says that the disk is full.
func isFull(err error) bool {
	return err != nil && (vfs.IsNoSpaceError(err) || errors.Is(err, syscall.ENOSPC) || isQuota(err))
}

// newRoom returns the room of a folder, with a reserve of size bytes.
func newRoom(fs vfs.FS, folder string, size int64, logger *slog.Logger) *room {
	r := &room{fs: fs, logger: logger, end: make(chan struct{})}
	r.own = reserve{fs.PathJoin(folder, ownReserveName), size / 4}
	r.shared = reserve{fs.PathJoin(folder, reserveName), size - size/4}
	for _, is := range []reserve{r.own, r.shared} {
		if r.there(is) {
			continue
		}
		if err := r.make(is); err != nil {
			r.mu.Lock()
			r.lost()
			r.mu.Unlock()
			break
		}
	}
	return r
}

// check returns ErrFull while the disk is full.
func (r *room) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.full {
		return fmt.Errorf("%w on the disk of %s", journal.ErrFull, r.fs.PathDir(r.shared.path))
	}
	return nil
}

// blocked reports whether a write waits for room.
func (r *room) blocked() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.waiting != [uses]int{}
}

// held reports whether a use gets no room even if there is some.
func (r *room) held(by use) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return by == forTable && r.ownRemoved
}

// wait frees the reserve and waits a little before a write is tried again. It returns false when the
// log is ending.
func (r *room) wait(by use, try int) bool {
	r.fill()
	r.mu.Lock()
	if try == 1 {
		r.waiting[by]++
	}
	again := try == 1 // the reserve may be all that is needed
	if try == 2 && by == forLog && !r.ownRemoved && !r.ended {
		r.ownRemoved, again = true, true
		r.give(r.own)
	}
	ended := r.ended
	r.mu.Unlock()
	if ended || again {
		return !ended
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

// fill records that the disk is full, and refuses what waits to be written.
func (r *room) fill() {
	r.mu.Lock()
	lost := !r.full
	r.lost()
	r.mu.Unlock()
	if lost && r.onFull != nil {
		r.onFull(r.check())
	}
}

func (r *room) waited(by use) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting[by]--
}

// lost records that the disk is full. The caller holds mu.
func (r *room) lost() {
	if r.full || r.ended {
		return
	}
	r.full = true
	r.give(r.shared)
	r.logger.Error("the disk is full: nothing new is taken until there is room", "reserve", r.shared.path)
	r.probes.Go(r.probe)
}

// there reports whether a reserve exists.
func (r *room) there(is reserve) bool {
	info, err := r.fs.Stat(is.path)
	return is.size == 0 || err == nil && info.Size() == is.size
}

// give removes a reserve to free its bytes.
func (r *room) give(is reserve) {
	if err := r.fs.Remove(is.path); err != nil {
		r.logger.Debug("the reserve is not there", "file", is.path, "error", err)
	}
}

// probe creates the reserve again as soon as that is possible and nothing waits for room. Before that
// it creates the part that tables wait for.
func (r *room) probe() {
	tick := time.NewTicker(probeAgain)
	defer tick.Stop()
	for {
		select {
		case <-r.end:
			return
		case <-tick.C:
		}
		r.mu.Lock()
		logs, out := r.waiting[forLog], r.ownRemoved
		r.mu.Unlock()
		if logs > 0 || (out || !r.there(r.own)) && r.make(r.own) != nil {
			continue
		}
		r.mu.Lock()
		r.ownRemoved = false
		r.mu.Unlock()
		if r.blocked() {
			continue
		}
		if r.make(r.shared) == nil {
			r.mu.Lock()
			r.full = false
			r.mu.Unlock()
			r.logger.Info("there is room on the disk again", "reserve", r.shared.path)
			return
		}
	}
}

// smallest is how many bytes must fit before the disk counts as not full, if there is no reserve.
const smallest = 64 << 10

// make creates the file of a reserve. It writes zeros, since not every file
// system can preallocate bytes.
func (r *room) make(is reserve) (err error) {
	temporary := is.path + ".new"
	f, err := r.fs.Create(temporary, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err != nil || is.size == 0 {
			err = errors.Join(err, r.fs.Remove(temporary))
		} else {
			err = r.fs.Rename(temporary, is.path)
		}
	}()
	left := is.size
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

// close ends the waits for room. Writes that wait are not done.
func (r *room) close() {
	r.mu.Lock()
	if !r.ended {
		r.ended = true
		close(r.end)
	}
	r.mu.Unlock()
	r.probes.Wait()
}
