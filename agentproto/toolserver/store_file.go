package toolserver

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// stateFile is the one file in the folder of [Options.State].
const stateFile = "toolserver.db"

// A fileStore is a store in a file of bbolt.
//
// Updates are grouped: while one group is written, the next gathers, and whoever
// is first in it writes it for all. So an update alone waits for nobody, which
// bbolt's own Batch would make it do, and a hundred at once cost one sync.
type fileStore struct {
	db *bbolt.DB

	mu      sync.Mutex
	waiting []*fileUpdate
	writing bool
}

// A fileUpdate waits to be written. If lead is sent to it, it writes the group.
type fileUpdate struct {
	f    func(tx) error
	done chan error // has room for one
	lead chan struct{}
}

// lockTimeout is how long a process that just ends may keep the file locked.
const lockTimeout = time.Second

// openFileStore opens the store in a folder, which is made if it is not there.
func openFileStore(folder string) (store, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("toolserver: the state folder %q cannot be made: %w", folder, err)
	}
	if err := os.Chmod(folder, 0o700); err != nil {
		return nil, fmt.Errorf("toolserver: the state folder %q cannot be closed to others: %w", folder, err)
	}
	path := filepath.Join(folder, stateFile)
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{
		Timeout:        lockTimeout,
		FreelistType:   bbolt.FreelistMapType,
		NoFreelistSync: true, // it is found again when the file is opened
	})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return nil, fmt.Errorf("toolserver: the state %q is in use by another process: end that one, or give this one another folder", path)
	}
	if err != nil {
		return nil, fmt.Errorf("toolserver: the state %q cannot be opened: %w", path, err)
	}
	return &fileStore{db: db}, nil
}

func (s *fileStore) durable() bool { return true }
func (s *fileStore) close() error  { return s.db.Close() }

func (s *fileStore) view(f func(tx) error) error {
	return s.db.View(func(t *bbolt.Tx) error { return f(fileTx{t}) })
}

func (s *fileStore) update(f func(tx) error) error {
	u := &fileUpdate{f: f, done: make(chan error, 1), lead: make(chan struct{}, 1)}
	s.mu.Lock()
	s.waiting = append(s.waiting, u)
	if !s.writing {
		s.writing = true
		u.lead <- struct{}{}
	}
	s.mu.Unlock()
	select {
	case err := <-u.done:
		return err
	case <-u.lead:
	}

	s.mu.Lock()
	group := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	s.write(group)
	s.mu.Lock()
	if s.writing = len(s.waiting) > 0; s.writing {
		s.waiting[0].lead <- struct{}{}
	}
	s.mu.Unlock()
	return <-u.done
}

// write writes the updates of a group in one transaction. One that fails is told
// so and left out, and the others are tried again.
func (s *fileStore) write(group []*fileUpdate) {
	for len(group) > 0 {
		failed := -1
		err := s.db.Update(func(t *bbolt.Tx) error {
			for i, u := range group {
				if err := attempt(u.f, fileTx{t}); err != nil {
					failed = i
					return err
				}
			}
			return nil
		})
		if failed < 0 {
			for _, u := range group {
				u.done <- err
			}
			return
		}
		group[failed].done <- err
		group = append(group[:failed:failed], group[failed+1:]...)
	}
}

// attempt runs f. The panic of one update must not take the others with it.
func attempt(f func(tx) error, t tx) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("toolserver: an update of the state panicked: %v", p)
		}
	}()
	return f(t)
}

type fileTx struct{ *bbolt.Tx }

func (t fileTx) get(bucket string, key []byte) []byte {
	b := t.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.Get(key)
}

func (t fileTx) put(bucket string, key, value []byte) error {
	b, err := t.CreateBucketIfNotExists([]byte(bucket))
	if err != nil {
		return err
	}
	return b.Put(key, value)
}

func (t fileTx) delete(bucket string, key []byte) error {
	b := t.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.Delete(key)
}

func (t fileTx) each(bucket string, prefix []byte, f func(key, value []byte) bool) {
	b := t.Bucket([]byte(bucket))
	if b == nil {
		return
	}
	c := b.Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix) && f(k, v); k, v = c.Next() {
	}
}
