package disklog

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// The records of an append of more than messageBytes are a message of their own, in a file of their own. What
// is among the keys for that message refers to the file. Pebble would write such records several times, to its
// write-ahead log and to tables, although most are purged soon.
//
// The file is durable before the message is written, so a message has its file. The caller of Append writes it, so
// several files are written at the same time. A file to which no message refers was left by a crash, or by a
// caller that did not wait; it is removed when the log is opened.

// A recordsFile is a file for records.
type recordsFile struct {
	id   uint64 // its name; zero means no file
	size uint64
}

// A recordsRef is what a message says of its file.
type recordsRef struct {
	recordsFile
	length uint64 // of the records in it, which may be less than its size
	sum    uint32 // CRC-32C of the records
}

// inFile stands in place of the size of the first record of a message. No record is as large.
const inFile = ^uint64(0)

const recordSuffix = ".records"

func recordName(id uint64) string { return strconv.FormatUint(id, 10) + recordSuffix }

func (f recordsRef) append(b []byte) []byte {
	b = binary.AppendUvarint(b, inFile)
	b = binary.AppendUvarint(b, f.id)
	b = binary.AppendUvarint(b, f.size)
	b = binary.AppendUvarint(b, f.length)
	return binary.BigEndian.AppendUint32(b, f.sum)
}

// fileOf returns the file of a message. Its id is zero if the message itself has the records.
func fileOf(message []byte) (f recordsRef, err error) {
	d := &decoder{rest: message}
	if d.number() != inFile {
		return recordsRef{}, nil
	}
	f.id, f.size, f.length = d.number(), d.number(), d.number()
	if d.err != nil || len(d.rest) != sumSize || f.length > maxParts*partSize {
		return recordsRef{}, errShort
	}
	f.sum = binary.BigEndian.Uint32(d.rest)
	return f, nil
}

func (l *Log) recordPath(id uint64) string {
	return l.opts.fs.PathJoin(l.path(recordsName), recordName(id))
}

// appendInFile appends records that have a file.
func (l *Log) appendInFile(ctx context.Context, o *op) (uint64, error) {
	if err := l.admit(o.purpose, int64(o.size)+overhead); err != nil { // write nothing that would be refused
		return 0, err
	}
	l.bound.Free(int64(o.size) + overhead)
	if err := l.room.check(); err != nil {
		return 0, err
	}
	is, again := l.spares.take(o.packed)
	if !again {
		var err error
		if is.id, err = l.takeAlone(ctx); err != nil {
			return 0, err
		}
	}
	is.size = max(is.size, uint64(o.packed))
	sum, err := l.writeRecords(is.id, o.records, again)
	if err != nil {
		return 0, err
	}
	o.file = recordsRef{is, uint64(o.packed), sum}
	position, err := l.submit(ctx, o)
	if err != nil && !isUnknown(err) {
		l.spares.add(l, is)
	}
	return position, err
}

// writeRecords makes the records of a file durable, over what was in it if it is used again, and returns their
// checksum. If there is no room for them, the disk counts as full, and nothing remains.
func (l *Log) writeRecords(id uint64, records [][]byte, again bool) (sum uint32, err error) {
	if err := l.enter(); err != nil {
		return 0, err
	}
	defer l.leave()
	if err := l.failed(); err != nil {
		return 0, err
	}
	fs, path := l.opts.fs, l.recordPath(id)
	err = l.raiseFormat()
	if err == nil {
		open := fs.Create
		if again { // the file keeps its name and its place on the disk, so that there is less to sync
			open = func(name string, c vfs.DiskWriteCategory) (vfs.File, error) { return fs.OpenReadWrite(name, c) }
		}
		sum, err = writeTo(open, path, records)
	}
	if err == nil && !again {
		err = syncDir(fs, fs.PathDir(path))
	}
	switch {
	case err == nil:
		return sum, nil
	case isFull(err):
		l.removeRecords(id)
		l.room.fill()
		return 0, fmt.Errorf("%w on the disk of %s", journal.ErrFull, l.opts.dir)
	}
	l.files.stop(fmt.Errorf("write %s: %w", path, err))
	<-l.ctx.Done()
	return 0, context.Cause(l.ctx)
}

// writeTo opens a file, makes records durable in it, and returns their checksum.
func writeTo(open func(string, vfs.DiskWriteCategory) (vfs.File, error), path string, records [][]byte) (sum uint32, err error) {
	f, err := open(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return 0, err
	}
	w := bufio.NewWriterSize(f, 16<<10) // for small records; it passes large ones on
	add := func(b []byte) {
		sum = crc32.Update(sum, castagnoli, b)
		_, _ = w.Write(b) // Flush returns the error
	}
	var size [binary.MaxVarintLen64]byte
	for _, r := range records {
		add(size[:binary.PutUvarint(size[:], uint64(len(r)))])
		add(r)
	}
	if err = w.Flush(); err == nil {
		err = f.SyncData()
	}
	return sum, errors.Join(err, f.Close())
}

// removeRecords removes a file to which no message refers. If that fails, it is removed when the log is opened
// again.
func (l *Log) removeRecords(id uint64) {
	if err := l.files.Remove(l.recordPath(id)); err != nil {
		l.logger.Debug("a file to which no message refers is left", "number", id, "error", err)
	}
}

// readRecords returns the records of a message that has a file. If that fails with an errFile, the message may
// have been purged, and its file removed or used again.
func (l *Log) readRecords(is recordsRef) ([]byte, error) {
	f, err := l.opts.fs.Open(l.recordPath(is.id))
	if err != nil {
		return nil, errFile{is.id, err}
	}
	defer f.Close()
	content := make([]byte, is.length)
	if n, err := io.ReadFull(f, content); err != nil {
		return nil, errFile{is.id, fmt.Errorf("it has %d bytes, and had %d: %w", n, is.length, err)}
	}
	if crc32.Checksum(content, castagnoli) != is.sum {
		return nil, errFile{is.id, errSum}
	}
	return content, nil
}

// An errFile is the error of a file that is missing, or does not have the records that a message says it has.
type errFile struct {
	id  uint64
	why error
}

func (e errFile) Error() string {
	return fmt.Sprintf("the file %s/%s: %v", recordsName, recordName(e.id), e.why)
}

// spares are files whose records were purged. New records are written over the old ones, because the sync of a
// new file takes two to three times as long. A file that is not used again soon is removed, so that what was
// purged does not stay on the disk.
type spares struct {
	mu    sync.Mutex
	files []spare // the oldest first
	bytes uint64  // their size
	timer *time.Timer
	ended bool
}

type spare struct {
	recordsFile
	since time.Time
}

// spareBytes bounds the size of all of them.
const spareBytes = 16 << 20

// take returns a file for records of size bytes, at least half of which they fill.
func (s *spares) take(size int) (is recordsFile, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.files, func(f spare) bool { return f.size <= 2*uint64(size) })
	if i < 0 {
		return recordsFile{}, false
	}
	is = s.files[i].recordsFile
	s.files = slices.Delete(s.files, i, i+1)
	s.bytes -= is.size
	return is, true
}

// add adds a file to which no message refers, or removes it if there are enough or the disk is full.
func (s *spares) add(l *Log, is recordsFile) {
	full := l.room.check() != nil
	s.mu.Lock()
	kept := !s.ended && !full && s.bytes+is.size <= spareBytes
	if kept {
		s.files, s.bytes = append(s.files, spare{is, time.Now()}), s.bytes+is.size
		if s.timer == nil {
			s.timer = time.AfterFunc(l.keepsSpares(), func() { s.remove(l, l.keepsSpares()) })
		}
	}
	s.mu.Unlock()
	if !kept {
		l.removeRecords(is.id)
	}
}

// keepsSpares returns how long a file is kept.
func (l *Log) keepsSpares() time.Duration { return cmp.Or(l.opts.spareFor, purgedFor) }

// remove removes the files that were kept for a while.
func (s *spares) remove(l *Log, kept time.Duration) {
	s.mu.Lock()
	n := 0
	for n < len(s.files) && time.Since(s.files[n].since) >= kept {
		s.bytes -= s.files[n].size
		n++
	}
	old := s.files[:n:n]
	s.files = s.files[n:]
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
	if len(s.files) > 0 {
		s.timer = time.AfterFunc(time.Until(s.files[0].since.Add(l.keepsSpares())), func() { s.remove(l, l.keepsSpares()) })
	}
	s.mu.Unlock()
	for _, is := range old {
		l.removeRecords(is.id)
	}
}

// end removes all of them, and from now on each that is added.
func (s *spares) end(l *Log) {
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	s.remove(l, 0)
}

// A keptFile is the file of a message.
type keptFile struct {
	position uint64
	recordsFile
}

// purgeFiles gives up the files of messages up to a position, after the purge of the messages is durable.
func (p *partition) purgeFiles(position uint64) {
	p.mu.Lock()
	n := 0
	for n < len(p.files) && p.files[n].position <= position {
		n++
	}
	gone := p.files[:n]
	p.files = p.files[n:]
	p.mu.Unlock()
	for _, f := range gone {
		p.log.spares.add(p.log, f.recordsFile)
	}
}

// loadFiles reads which files the messages of a partition have.
func (p *partition) loadFiles() error {
	return p.log.each(between(kindFile, p.number, 0, ^uint64(0)), func(it *pebble.Iterator) error {
		return decodeAt(it, func(position uint64, d *decoder) {
			p.files = append(p.files, keptFile{position, recordsFile{d.number(), d.number()}})
		})
	})
}

// checkFiles returns an error if the file of a message is missing. It removes files to which no message refers.
func (l *Log) checkFiles() error {
	names, err := l.opts.fs.List(l.path(recordsName))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("disklog: %w", err)
	}
	there := make(map[uint64]bool)
	for _, name := range names {
		number, ok := strings.CutSuffix(name, recordSuffix)
		if id, err := strconv.ParseUint(number, 10, 64); ok && err == nil {
			there[id] = true
		}
	}
	for n := range l.partitions {
		for _, f := range l.partitions[n].files {
			if !there[f.id] {
				return l.unreadable(n, fmt.Sprintf("the message at %d", f.position), errFile{f.id, os.ErrNotExist})
			}
			delete(there, f.id)
		}
	}
	for id := range there {
		l.removeRecords(id)
	}
	return nil
}

// pack appends a record after its size.
func pack(b, record []byte) []byte {
	b = binary.AppendUvarint(b, uint64(len(record)))
	return append(b, record...)
}

// firstWithFiles is the first format whose messages may refer to files.
const firstWithFiles = 2

// raiseFormat has programs that do not know files for records refuse the log. It is called before the first
// such file is written.
func (l *Log) raiseFormat() error {
	l.raising.Lock()
	defer l.raising.Unlock()
	if l.identity.format >= firstWithFiles {
		return nil
	}
	raised := l.identity
	raised.format = format
	if err := l.storeIdentity(&group{l: l, batch: l.db.NewBatch()}, raised); err != nil {
		return err
	}
	if err := writeFile(l.opts.fs, l.path(identityName), raised.encode()); err != nil {
		return fmt.Errorf("disklog: %w", err)
	}
	l.identity.format = raised.format
	return nil
}
