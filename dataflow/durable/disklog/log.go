package disklog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A Log is a journal.Log in a folder. The package comment describes its guarantees.
type Log struct {
	opts   settings
	logger *slog.Logger
	lock   *os.File
	locked os.FileInfo // of lock
	room   *room
	files  *files
	db     *pebble.DB

	identity   identity
	partitions []partition
	number     atomic.Uint64 // the last number that was given out
	ceiling    atomic.Uint64 // numbers up to this one may be given out: it is on the disk
	bound      *journal.Bound
	queue      queue
	counters   counters
	raising    sync.Mutex // held while the format of identity is raised
	spares     spares

	ctx     context.Context // ends when the log is closed or has failed
	end     context.CancelCauseFunc
	closing sync.Once

	// use is held for reading while pebble is used, and for writing while pebble is closed.
	use  sync.RWMutex
	gone bool // pebble is closed

	failing sync.Once
	failure atomic.Pointer[error]
	ending  sync.WaitGroup // goroutines that fail has started
}

var _ journal.Log = (*Log)(nil)

// Partitions returns the number of partitions.
func (l *Log) Partitions() int { return len(l.partitions) }

// Identity returns the random value that was drawn when the log was created.
func (l *Log) Identity() journal.Identity { return l.identity.id }

// there returns an error if the folder that was opened was removed, or replaced by another one of
// the same name. After that, nothing written to its files can be found again.
func (l *Log) there() error {
	at, err := os.Stat(l.lock.Name())
	if err == nil && os.SameFile(at, l.locked) {
		return nil
	}
	if err == nil || errors.Is(err, os.ErrNotExist) {
		return l.damaged("it was removed or replaced while it was open (%s is not the file that was locked)", l.lock.Name())
	}
	return nil // unknown: do not fail the log
}

// ready returns the reason why an operation on a partition cannot start.
func (l *Log) ready(ctx context.Context, partition int) error {
	if l.ctx.Err() != nil {
		return context.Cause(l.ctx)
	}
	if partition < 0 || partition >= len(l.partitions) {
		return fmt.Errorf("disklog: there is no partition %d, only %d of them", partition, len(l.partitions))
	}
	return context.Cause(ctx)
}

// enter starts a use of pebble. The caller must call leave, except after an error.
func (l *Log) enter() error {
	l.use.RLock()
	if l.gone {
		l.use.RUnlock()
		return context.Cause(l.ctx)
	}
	return nil
}

func (l *Log) leave() { l.use.RUnlock() }

// failed returns the error with which the log has failed, or nil.
func (l *Log) failed() error {
	if err := l.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// fail ends the log: from now on every operation returns err. The caller may hold any lock of
// pebble.
func (l *Log) fail(err error) {
	l.failing.Do(func() {
		l.failure.Store(&err)
		l.files.failed.Store(true)
		l.logger.Error("the log has failed", "error", err)
		l.end(err)
		l.ending.Go(func() { l.shut() })
	})
}

// unwritable is called with the error of the first change on the disk that failed.
func (l *Log) unwritable(err error) {
	if isFull(err) {
		l.fail(fmt.Errorf("%w on the disk of %s: %w; make room and open it again", journal.ErrFull, l.opts.dir, err))
		return
	}
	l.fail(fmt.Errorf("disklog: %s cannot be written: %w; nothing that was acknowledged is lost: close it, see to the disk, and open it again", l.opts, err))
}

// damaged returns the error of a history that must be repaired from outside.
func (l *Log) damaged(format string, args ...any) error { return l.opts.damaged(format, args...) }

func (s settings) damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s; put back what was lost, or all of the history from one backup, or begin a new one elsewhere",
		journal.ErrDamaged, s.opener, fmt.Sprintf(format, args...))
}

// unreadable returns the error of a partition that contains something unreadable.
func (l *Log) unreadable(partition int, what string, err error) error {
	if errors.Is(err, journal.ErrDamaged) {
		return err
	}
	return l.damaged("partition %d: %s: %v", partition, what, err)
}

// Close closes the log after everything acknowledged is on the disk and pebble has written its
// files. Calls that wait return journal.ErrClosed.
func (l *Log) Close() (err error) {
	l.closing.Do(func() {
		l.end(journal.ErrClosed)
		l.room.close()
		l.queue.runs.Wait()
		l.spares.end(l)
		err = l.shut()
		l.ending.Wait()
		err = errors.Join(err, l.lock.Close())
	})
	return err
}

// shut closes pebble when nobody uses it any longer.
func (l *Log) shut() (err error) {
	l.use.Lock()
	defer l.use.Unlock()
	if l.gone {
		return nil
	}
	l.gone = true
	if l.db == nil {
		if l.files == nil {
			return nil
		}
		return l.files.mark.file.Close()
	}
	if l.failed() == nil && len(l.partitions) > 0 {
		err = l.writeCounter(l.number.Load())
	}
	// If pebble panics here, it is about files whose writes are discarded.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("disklog: closing the storage: %v", p)
		}
		err = errors.Join(err, l.files.mark.file.Close())
	}()
	return l.db.Close()
}
