package vault

import (
	"bytes"
	"sync"

	"go.etcd.io/bbolt"
)

// A File is a file of named buckets with keys and values, all of them bytes. A bucket is there
// when something is put into it. Its methods may be called by any number of goroutines.
type File struct {
	db   *bbolt.DB
	mark *mark // nil while the file is made

	mu  sync.Mutex // held by the writer
	sum storeSum   // as it is in the file
}

// Close gives the file free. What is called later returns an error.
func (s *File) Close() error {
	defer s.mark.close()
	return s.db.Close()
}

// View runs f with what the last update left. Nothing may be put or deleted.
func (s *File) View(f func(*Tx) error) error {
	return s.db.View(func(t *bbolt.Tx) error { return f(&Tx{tx: t}) })
}

// Update runs f and keeps what it changed, all of it or, if f returns an error, nothing. That is
// on the disk when Update returns.
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

// A Tx is one transaction of a [File]. It is for the goroutine that runs it only, and until it
// returns. It keeps the sum of the records up to date.
type Tx struct {
	tx  *bbolt.Tx
	sum storeSum
}

// Get returns the value of key, or nil if it has none. The value must not be changed, nor used
// after the transaction.
func (t *Tx) Get(bucket string, key []byte) []byte {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return nil
	}
	return b.Get(key)
}

// Put sets the value of key, which must not be empty. Both may be changed by the caller only after
// the transaction.
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

// Delete removes key. A key that is not there is no error.
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

// Each calls f for the keys that begin with prefix, in their order, until f returns false. F must
// change nothing in the bucket.
func (t *Tx) Each(bucket string, prefix []byte, f func(key, value []byte) bool) {
	b := t.tx.Bucket([]byte(bucket))
	if b == nil {
		return
	}
	c := b.Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix) && f(k, v); k, v = c.Next() {
	}
}

// clear removes all of a bucket.
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
