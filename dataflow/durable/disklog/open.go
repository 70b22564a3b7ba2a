package disklog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace/millrace/dataflow/durable/internal/lockfile"
	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Names of the files in the folder of a log.
const (
	lockName       = "lock"
	identityName   = "identity"
	markName       = "mark"
	reserveName    = "reserve"
	ownReserveName = "reserve-log"
	storageName    = "db"
	recordsName    = "records"
)

func openLog(ctx context.Context, s settings) (*Log, error) {
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	l := &Log{opts: s, logger: s.Logger.With("journal", s.Name)}
	l.ctx, l.end = context.WithCancelCause(context.Background())
	l.queue.wake = make(chan struct{}, 1)
	if err := l.takeFolder(ctx); err != nil {
		return nil, err
	}
	l.use.Lock() // so that a failure does not close what is being opened
	err := l.open(ctx)
	l.use.Unlock()
	if err == nil {
		l.queue.runs.Go(l.run)
		return l, nil
	}
	l.end(err)
	if l.room != nil {
		l.room.close()
	}
	l.shut()
	l.ending.Wait()
	l.lock.Close()
	if failed := l.failed(); failed != nil {
		err = failed
	}
	if isFull(err) && !errors.Is(err, journal.ErrFull) {
		err = fmt.Errorf("%w on the disk of %s: %w", journal.ErrFull, s.dir, err)
	}
	return nil, err
}

func (l *Log) path(name string) string { return l.opts.fs.PathJoin(l.opts.dir, name) }

// takeFolder creates the folder, unless it must exist, and locks it for this log.
func (l *Log) takeFolder(ctx context.Context) error {
	dir := l.opts.dir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, os.ErrNotExist) && l.opts.Existing:
		return fmt.Errorf("%w in %s: there is no such folder", journal.ErrMissing, dir)
	case errors.Is(err, os.ErrNotExist):
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("disklog: %w", err)
		}
	case err != nil:
		return fmt.Errorf("disklog: %w", err)
	case !info.IsDir() && l.opts.Existing:
		return fmt.Errorf("%w in %s: it is not a folder", journal.ErrMissing, dir)
	case !info.IsDir():
		return fmt.Errorf("disklog: %s is not a folder", dir)
	}
	if l.opts.Existing { // leave no lock file where there is no log
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("disklog: %w", err)
		}
		if !has(entries, identityName) && !has(entries, storageName) {
			return fmt.Errorf("%w in %s: no log was ever made there", journal.ErrMissing, dir)
		}
	}
	path := filepath.Join(dir, lockName)
	lock, err := lockfile.Take(ctx, path)
	switch {
	case errors.Is(err, lockfile.ErrTaken) && l.opts.Existing:
		return fmt.Errorf("disklog: %w: a process has %s open (%s is locked): end it first, or look at a copy of the folder", journal.ErrInUse, dir, path)
	case errors.Is(err, lockfile.ErrTaken):
		return fmt.Errorf("disklog: %w: another process or another log of this one has %s open (%s is locked): end it, or give this one a folder of its own", journal.ErrInUse, dir, path)
	case err != nil:
		return fmt.Errorf("disklog: %w", err)
	}
	if l.locked, err = lock.Stat(); err != nil {
		lock.Close()
		return fmt.Errorf("disklog: %w", err)
	}
	l.lock = lock
	return nil
}

func has(entries []os.DirEntry, name string) bool {
	for _, e := range entries {
		if e.Name() == name {
			return true
		}
	}
	return false
}

// open examines the folder, and opens the log or creates it.
func (l *Log) open(ctx context.Context) error {
	fs := l.opts.fs
	if err := l.unfinished(); err != nil {
		return err
	}
	stored, err := fs.List(l.path(storageName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("disklog: %w", err)
	}
	kept, unread := l.readIdentity()
	switch {
	case unread == nil:
		if err := l.accept(kept); err != nil {
			return err
		}
		if len(stored) == 0 {
			return l.damaged("the folder %s is gone or empty", storageName)
		}
	case len(stored) == 0 && !errors.Is(unread, os.ErrNotExist):
		return l.damaged("the file %s: %v", identityName, unread)
	case len(stored) == 0 && l.opts.Existing:
		return fmt.Errorf("%w in %s: no log was ever made there", journal.ErrMissing, l.opts.dir)
	case len(stored) == 0:
		if _, err := fs.Stat(l.path("jetstream")); err == nil {
			return fmt.Errorf("disklog: %s has the log of an embedded NATS server: open it with natslog.Embedded, or give this log another folder", l.opts.dir)
		}
		l.logger.Info("making a new log", "folder", l.opts.dir)
	}
	if err := l.prepare(unread == nil); err != nil {
		return err
	}
	return l.patient(ctx, func() error {
		if err := l.openStorage(unread == nil); err != nil {
			return err
		}
		if err := l.identify(kept, unread, len(stored) > 0); err != nil {
			return err
		}
		return l.load()
	})
}

// accept compares the identity of a log with the options.
func (l *Log) accept(i identity) error {
	switch {
	case i.format < 1 || i.format > format:
		return fmt.Errorf("disklog: %s has the format %d, and this program knows %d: use the program that made it, or another folder", l.opts.opener, i.format, format)
	case i.name != l.opts.Name && l.opts.Existing:
		return fmt.Errorf("%w of the name %q in %s: there is %q", journal.ErrMissing, l.opts.Name, l.opts.dir, i.name)
	case i.name != l.opts.Name:
		return fmt.Errorf("disklog: %s was created with the name %q, and is opened with %q: give each its own folder", l.opts.opener, i.name, l.opts.Name)
	case l.opts.Partitions != 0 && l.opts.Partitions != i.partitions:
		return fmt.Errorf("disklog: %s was created with %d partitions, which cannot change, and is opened with %d", l.opts.opener, i.partitions, l.opts.Partitions)
	}
	return nil
}

// prepare opens the mark, compares the files of pebble with it, and finds out whether the disk has
// room. Made says that the log existed before.
func (l *Log) prepare(made bool) error {
	fs, dir := l.opts.fs, l.path(storageName)
	mark, marked, known, err := openMark(fs, l.path(markName))
	if err != nil {
		return fmt.Errorf("disklog: %w", err)
	}
	l.files = &files{FS: fs, dir: dir, mark: mark, synced: marked, fail: l.unwritable}
	if made && !known {
		l.logger.Warn("the mark is gone or cannot be read, so it is not known how far the newest files were synced", "file", l.path(markName))
	}
	if err := l.verify(marked); err != nil {
		return l.damaged("%v", err)
	}
	l.torn(marked)
	l.room = newRoom(fs, l.opts.dir, l.opts.Reserve, l.logger)
	l.room.onFull = l.refuse
	l.files.room = l.room
	for _, dir := range []string{dir, l.path(recordsName)} {
		if err := fs.MkdirAll(dir, 0o700); err != nil {
			return fmt.Errorf("disklog: %w", err)
		}
	}
	if err := syncDir(fs, l.opts.dir); err != nil {
		return fmt.Errorf("disklog: %w", err)
	}
	return nil
}

// openStorage opens pebble. With made, the database must exist.
func (l *Log) openStorage(made bool) (err error) {
	l.db, err = pebble.Open(l.files.dir, l.storage(l.files, made))
	switch {
	case l.failed() != nil:
		return l.failed()
	case err != nil && isFull(err):
		return err
	case err != nil:
		return l.damaged("%v", err)
	}
	return nil
}

// verify compares the files of pebble with the mark. Two kinds of files are not needed and may be
// damaged: older manifests, and old options files, which pebble would otherwise insist on reading.
func (l *Log) verify(marked []synced) error {
	fs, dir := l.opts.fs, l.path(storageName)
	names, err := fs.List(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	slices.Sort(names)
	var current string
	for _, name := range names {
		if rest, ok := strings.CutPrefix(name, "marker.manifest."); ok {
			_, current, _ = strings.Cut(rest, ".")
		}
		if strings.HasPrefix(name, "OPTIONS-") {
			if err := fs.Remove(fs.PathJoin(dir, name)); err != nil {
				return err
			}
		}
	}
	for _, s := range marked {
		if s.kind == 'm' && s.name() != current {
			continue
		}
		if err := s.verify(fs, dir); err != nil {
			return err
		}
	}
	return nil
}

// fullFor is how long an Open waits for room on a full disk.
const fullFor = time.Second

// patient runs a part of Open that may wait for room on the disk, and limits that wait to fullFor.
func (l *Log) patient(ctx context.Context, do func() error) error {
	result := make(chan error, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil { // of pebble, about what it has read
				result <- l.damaged("%v", p)
			}
		}()
		result <- do()
	}()
	tick := time.NewTicker(fullFor / 10)
	defer tick.Stop()
	for blocked := 0; ; {
		select {
		case err := <-result:
			return err
		case <-ctx.Done():
		case <-tick.C:
			if blocked++; !l.room.blocked() {
				blocked = 0
			}
			if blocked < 10 {
				continue
			}
		}
		l.room.close() // writes that wait for room fail
		if err := <-result; err != nil {
			return err
		}
		return context.Cause(ctx)
	}
}

// identify compares the identity among the keys with that in the file, and writes what is missing:
// both for a new log or one whose creation was interrupted, otherwise the file.
func (l *Log) identify(kept identity, unread error, stored bool) error {
	var among identity
	found, err := l.storedIdentity(&among)
	if err != nil {
		return l.damaged("the identity in %s: %v", storageName, err)
	}
	switch {
	case found && unread == nil:
		older := kept
		if older.format = among.format; among != older {
			return l.damaged("the file %s and the folder %s are of different logs", identityName, storageName)
		}
		l.identity = kept
		return nil
	case unread == nil:
		return l.damaged("the folder %s has not the log that the file %s names", storageName, identityName)
	case found:
		if err := l.accept(among); err != nil {
			return err
		}
		if !errors.Is(unread, os.ErrNotExist) {
			l.logger.Warn("the identity could not be read and is written again", "file", l.path(identityName), "error", unread)
		}
		l.identity = among
	case !errors.Is(unread, os.ErrNotExist):
		return l.damaged("the file %s: %v", identityName, unread)
	case l.opts.Existing:
		return fmt.Errorf("%w in %s: the making of a log was cut short", journal.ErrMissing, l.opts.dir)
	default:
		if stored {
			if empty, err := l.empty(); err != nil || !empty {
				return l.damaged("the folder %s has something else than a log in it (%v)", storageName, err)
			}
		}
		l.identity = newIdentity(cmp.Or(l.opts.format, format), l.opts.Name, max(l.opts.Partitions, 1))
		g := &group{l: l, batch: l.db.NewBatch()}
		g.counter(0)
		if err := l.storeIdentity(g, l.identity); err != nil {
			return err
		}
	}
	if err := writeFile(l.opts.fs, l.path(identityName), l.identity.encode()); err != nil {
		return fmt.Errorf("disklog: %w", err)
	}
	return nil
}

// empty reports whether the database has no keys.
func (l *Log) empty() (bool, error) {
	it, err := l.db.NewIter(nil)
	if err != nil {
		return false, err
	}
	found := it.First()
	return !found, errors.Join(it.Error(), it.Close())
}

// load reads the state of the counter and of the partitions.
func (l *Log) load() error {
	var counter uint64
	found := false
	if err := l.one(kindCounter, 0, func(_ uint64, d *decoder) {
		if len(d.rest) != 8 {
			d.err = errShort
			return
		}
		counter, found = numberOf(append(make([]byte, 5), d.rest...)), true
	}); err != nil || !found {
		return l.damaged("the counter: %v", err)
	}
	var kept, history int64
	l.partitions = make([]partition, l.identity.partitions)
	for n := range l.partitions {
		p := &l.partitions[n]
		p.log, p.number = l, n
		if err := p.load(); err != nil {
			return err
		}
		if most := max(p.now.end, p.now.fence); most > counter {
			return l.damaged("partition %d: the counter is at %d, and %d was given out", n, counter, most)
		}
		if err := p.loadFiles(); err != nil {
			return l.unreadable(n, "which files its records have", err)
		}
		if err := p.loadPieces(); err != nil {
			return l.unreadable(n, "how large its state is", err)
		}
		history += p.now.history()
		kept += p.now.kept() + p.pieceBytes
	}
	l.bound = journal.NewBound(l.opts.MaxBytes, kept, history)
	l.number.Store(counter)
	l.ceiling.Store(counter)
	if err := l.checkFiles(); err != nil {
		return err
	}
	return l.failed()
}
