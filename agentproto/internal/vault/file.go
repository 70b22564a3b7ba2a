package vault

import (
	"bytes"
	"sync"

	"go.etcd.io/bbolt"
)

// A File is a file of named buckets of keys and values, all of them bytes. A bucket is created when
// something is put into it. The methods of a File are safe for concurrent use.
type File struct {
	db   *bbolt.DB
	mark *mark // nil while the file is being made

	mu  sync.Mutex // held by the writer
	sum storeSum   // the sum in the file
}

// Close closes the file and releases its lock. Later calls return an error.
func (s *File) Close() error {
	defer s.mark.close()
	return s.db.Close()
}

// View runs f on the state after the last update. F must not put or delete anything.
func (s *File) View(f func(*Tx) error) error {
	return s.db.View(func(t *bbolt.Tx) error { return f(&Tx{tx: t}) })
}

// Update runs f and stores its changes, or none of them if f returns an error. The changes are on
// disk when Update returns.
func (s *File) Update(f func(*Tx) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var txid int
	var sum storeSum
	if err := s.db.Update(func(t *bbolt.Tx) error {
		ft := &Tx{t, s.sum}
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

// A Tx is a transaction of a [File]. Only the function that View or Update runs may use it, in one
// goroutine and until it returns. It keeps the sum of the records up to date.
type Tx struct {
	tx  *bbolt.Tx
	sum storeSum
}

// Get returns the value of key, or nil if there is none. The value must not be changed, nor used
// after the transaction.
func (t *Tx) Get(bucket string, key []byte) []byte {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.Get(key)
}

// Put sets the value of key, which must not be empty. The caller must not change either before the
// end of the transaction.
func (t *Tx) Put(bucket string, key, value []byte) error {
	b, err := t.tx.CreateBucketIfNotExists([]byte(bucket))
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

// Delete removes key, if it exists.
func (t *Tx) Delete(bucket string, key []byte) error {
	b := t.tx.Bucket([]byte(bucket))
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

// Each calls f for the keys that begin with prefix, in order, until f returns false. F must not
// change the bucket.
func (t *Tx) Each(bucket string, prefix []byte, f func(key, value []byte) bool) {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return
	}
	c := b.Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix) && f(k, v); k, v = c.Next() {
	}
}

// clear removes all records of a bucket.
func (t *Tx) clear(bucket string) error {
	var keys [][]byte
	t.Each(bucket, nil, func(k, _ []byte) bool {
		keys = append(keys, bytes.Clone(k))
		return true
	})
	for _, k := range keys {
		if err := t.Delete(bucket, k); err != nil {
			return err
		}
	}
	return nil
}
