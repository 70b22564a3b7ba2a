package vault

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"github.com/millrace/millrace/internal/fsync"
)

const (
	// FileName is the name of the file in its folder.
	FileName = "toolserver.db"
	// MarkName is the name of the file that names the last change. Without it, a file that is
	// empty, missing or older than it was would look valid.
	MarkName = "toolserver.mark"
)

// lockTimeout is how long to wait for the lock of a process that is just ending.
const lockTimeout = time.Second

// Open opens the file in a folder, which is created if it does not exist. Open reads the whole file
// first, so that damage is an error here rather than a fault or a loss later.
//
// A process that is killed at any moment leaves a store that can be opened: a new file is made
// under another name and marked when it has its own; a change is marked when it is on disk.
func Open(folder string) (*File, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("toolserver: the state folder %q cannot be made: %w", folder, err)
	}
	if err := os.Chmod(folder, 0o700); err != nil {
		return nil, fmt.Errorf("toolserver: the state folder %q cannot be closed to others: %w", folder, err)
	}
	path := filepath.Join(folder, FileName)
	fail := func(err error) error {
		switch {
		case errors.Is(err, bolterrors.ErrTimeout):
			return fmt.Errorf("toolserver: the state %q is in use by another process: end that one, or give this one another folder", path)
		case errors.Is(err, errMarked):
			return fmt.Errorf("toolserver: the state %q %w: put back a copy of the whole folder, or, to go on with it as it is and lose what is not in it, remove %s", path, err, MarkName)
		case errors.Is(err, ErrDamaged):
			return fmt.Errorf("toolserver: the state %q is %w: put back a copy of the whole folder, or, to begin with an empty state and lose what was accepted, authorized and not delivered, remove %s and %s", path, err, FileName, MarkName)
		}
		return fmt.Errorf("toolserver: the state %q cannot be opened: %w", path, err)
	}
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = makeFile(folder, path)
	}
	if err != nil {
		return nil, fail(err)
	}
	found, err := checkLocked(path)
	if err != nil {
		return nil, fail(err)
	}
	s := new(File)
	if s.mark, err = openMark(filepath.Join(folder, MarkName)); err == nil {
		err = s.mark.check(found)
	}
	if err != nil {
		s.mark.close()
		return nil, fail(err)
	}
	if s.db, err = bbolt.Open(path, 0o600, fileOptions()); err == nil && found.known == nil {
		err = s.begin(found.sum)
	} else if err == nil {
		s.sum = *found.known
		s.mark.set(s.sum.ID, found.txid)
	}
	if err != nil {
		if s.db != nil {
			s.db.Close()
		}
		s.mark.close()
		return nil, fail(err)
	}
	return s, nil
}

func fileOptions() *bbolt.Options {
	return &bbolt.Options{
		Timeout:        lockTimeout,
		FreelistType:   bbolt.FreelistMapType,
		NoFreelistSync: true, // rebuilt when the file is opened
	}
}

// makeFile makes an empty store atomically.
func makeFile(folder, path string) error {
	if _, err := os.Stat(filepath.Join(folder, MarkName)); err == nil {
		return damaged("it is gone, and %s says that it was there", MarkName)
	}
	temp, err := os.CreateTemp(folder, "."+FileName+"-*") // with mode 0600
	if err != nil {
		return err
	}
	temp.Close()
	defer os.Remove(temp.Name())
	db, err := bbolt.Open(temp.Name(), 0o600, fileOptions())
	if err != nil {
		return err
	}
	if err := errors.Join((&File{db: db}).begin(0), db.Close()); err != nil {
		return err
	}
	// If another process has made the file at the same time, that file counts.
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return fsync.Folder(folder)
}

// checkLocked checks a file while holding its lock, so that no process changes it.
func checkLocked(path string) (found checkedFile, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return found, err
	}
	if info.Size() == 0 {
		return found, damaged("it is empty")
	}
	var file *os.File
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout, OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
		f, err := os.OpenFile(name, flag, mode)
		file = f
		return f, err
	}})
	switch {
	case errors.Is(err, bolterrors.ErrTimeout), errors.Is(err, fs.ErrPermission), errors.Is(err, fs.ErrNotExist):
		return found, err
	case err != nil: // bbolt checks only the first two pages
		return found, damaged("%v", err)
	}
	defer db.Close()
	if info, err = file.Stat(); err != nil { // again, with the lock held
		return found, err
	}
	return checkFile(file, info.Size())
}

// begin gives a store a random ID, and the sum of its records.
func (s *File) begin(sum uint64) error {
	s.sum = storeSum{Sum: sum}
	rand.Read(s.sum.ID[:])
	return s.Update(func(*Tx) error { return nil })
}

// errMarked says that a file may be undamaged, but may not be the latest one.
var errMarked = errors.New("may not be the newest one")

// A mark is a file of two slots, which are written in turn. A slot is written after the change is
// on disk, and is not synced. So after a power failure it may name an earlier change, which is
// harmless, and one of the two slots may be incomplete.
type mark struct {
	f    *os.File
	id   [16]byte
	txid uint64 // of the later slot; 0 if neither is valid
}

const (
	markSlot  = 64
	markBytes = 16 + 8 + 8 // id, txid, digest
)

func openMark(path string) (*mark, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	m := &mark{f: f}
	bad := 0
	for i := range int64(2) {
		b := make([]byte, markBytes)
		n, _ := f.ReadAt(b, i*markSlot)
		if n == 0 || bytes.Equal(b, make([]byte, markBytes)) {
			continue // not written yet
		}
		d := sha256.Sum256(b[:24])
		if txid := binary.BigEndian.Uint64(b[16:]); n < markBytes || !bytes.Equal(d[:8], b[24:]) {
			bad++
		} else if txid > m.txid {
			m.txid = txid
			copy(m.id[:], b)
		}
	}
	if m.txid == 0 && bad > 0 {
		m.close()
		return nil, fmt.Errorf("%w: %s is damaged", errMarked, MarkName)
	}
	return m, nil
}

// check compares a file with its mark.
func (m *mark) check(found checkedFile) error {
	switch {
	case m.txid == 0: // the file is new, or was made before there were marks
		return nil
	case found.known == nil || found.known.ID != m.id:
		return fmt.Errorf("%w: %s is of another file", errMarked, MarkName)
	case found.txid < m.txid:
		return fmt.Errorf("%w: its last change is number %d, and number %d was made: it is an older copy, or the change is damaged", errMarked, found.txid, m.txid)
	}
	return nil
}

// set records a change that is on disk. Errors are ignored: the mark then names an earlier change.
func (m *mark) set(id [16]byte, txid uint64) {
	if m == nil {
		return
	}
	b := binary.BigEndian.AppendUint64(append([]byte(nil), id[:]...), txid)
	d := sha256.Sum256(b)
	m.f.WriteAt(append(b, d[:8]...), int64(txid%2)*markSlot)
}

func (m *mark) close() {
	if m != nil {
		m.f.Close()
	}
}
