package toolserver

import (
	"bytes"
	"fmt"
	"sync"

	"go.etcd.io/bbolt"
)

// A fileStore is a store in a file of bbolt.
//
// Updates are grouped: while one group is written, the next gathers, and whoever
// is first in it writes it for all. So an update alone waits for nobody, which
// bbolt's own Batch would make it do, and a hundred at once cost one sync.
type fileStore struct {
	db   *bbolt.DB
	mark *mark    // nil while the file is made
	sum  storeSum // as it is in the file; of whoever writes

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

func (s *fileStore) durable() bool { return true }
func (s *fileStore) close() error {
	defer s.mark.close()
	return s.db.Close()
}

func (s *fileStore) view(f func(tx) error) error {
	return s.db.View(func(t *bbolt.Tx) error { return f(&fileTx{Tx: t}) })
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
		err := s.change(func(t *fileTx) error {
			for i, u := range group {
				if err := attempt(u.f, t); err != nil {
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

// change makes one change of the file, with the sum of what is in it afterwards. One
// goroutine at a time calls it.
func (s *fileStore) change(f func(*fileTx) error) error {
	var txid int
	var sum storeSum
	if err := s.db.Update(func(t *bbolt.Tx) error {
		ft := &fileTx{t, s.sum}
		if err := f(ft); err != nil {
			return err
		}
		b, err := t.CreateBucketIfNotExists([]byte(sumBucket))
		if err != nil {
			return err
		}
		txid, sum = t.ID(), ft.sum
		return b.Put([]byte(sumKey), sum.encode())
	}); err != nil {
		return err
	}
	s.sum = sum
	s.mark.set(sum.ID, uint64(txid))
	return nil
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

// A fileTx keeps the sum of the records up to date.
type fileTx struct {
	*bbolt.Tx
	sum storeSum
}

func (t *fileTx) get(bucket string, key []byte) []byte {
	b := t.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.Get(key)
}

func (t *fileTx) put(bucket string, key, value []byte) error {
	b, err := t.CreateBucketIfNotExists([]byte(bucket))
	if err != nil {
		return err
	}
	old := b.Get(key)
	sum := t.sum.Sum + recordSum(bucket, key, value)
	if old != nil {
		sum -= recordSum(bucket, key, old)
	}
	if err := b.Put(key, value); err != nil {
		return err
	}
	t.sum.Sum = sum
	return nil
}

func (t *fileTx) delete(bucket string, key []byte) error {
	b := t.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	old := b.Get(key)
	if old == nil {
		return nil
	}
	sum := t.sum.Sum - recordSum(bucket, key, old)
	if err := b.Delete(key); err != nil {
		return err
	}
	t.sum.Sum = sum
	return nil
}

func (t *fileTx) each(bucket string, prefix []byte, f func(key, value []byte) bool) {
	b := t.Bucket([]byte(bucket))
	if b == nil {
		return
	}
	c := b.Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix) && f(k, v); k, v = c.Next() {
	}
}
