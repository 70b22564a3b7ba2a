package toolserver

import (
	"bytes"
	"maps"
	"slices"
	"sync"

	"github.com/google/btree"
)

// A store keeps what must outlive a request or, if it is a file, the process. It
// has named buckets of keys and values, all of them bytes; a bucket is there when
// something is put into it.
//
// There are two: [newMemoryStore] and [openFileStore]. Their methods are called
// from any number of goroutines.
type store interface {
	// view runs f with what the last update left. Nothing may be put or deleted.
	view(f func(tx tx) error) error
	// update runs f and keeps what it changed, all of it or, if f returns an error,
	// nothing. It returns when that is durable. Updates at the same time share one
	// sync of the disk, and f may run more than once until it is kept, so what it
	// assigns to outside it must assign anew each time.
	update(f func(tx tx) error) error
	// durable reports whether another process can read what is kept here.
	durable() bool
	// close gives the file free. What is called later returns an error.
	close() error
}

// A tx is one transaction of a store. It is for the goroutine that runs the
// transaction only, and until it returns.
type tx interface {
	// get returns the value of key, or nil if it has none. The value must not be
	// changed, nor used after the transaction.
	get(bucket string, key []byte) []byte
	// put sets the value of key, which must not be empty. Both may be changed by the
	// caller only after the transaction.
	put(bucket string, key, value []byte) error
	// delete removes key. A key that is not there is no error.
	delete(bucket string, key []byte) error
	// each calls f for the keys that begin with prefix, in their order, until f
	// returns false. f must change nothing in the bucket.
	each(bucket string, prefix []byte, f func(key, value []byte) bool)
}

// A memoryStore is a store that ends with the process. Trees that others can see are
// not changed: an update works on clones of those that it changes, which share with
// the originals what is the same.
type memoryStore struct {
	writing sync.Mutex // one update after the other
	mu      sync.Mutex
	buckets map[string]*btree.BTreeG[pair]
}

type pair struct{ key, value []byte }

func newMemoryStore() store { return new(memoryStore) }

func (s *memoryStore) view(f func(tx) error) error {
	s.mu.Lock()
	t := &memoryTx{buckets: s.buckets}
	s.mu.Unlock()
	return f(t)
}

func (s *memoryStore) update(f func(tx) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	t := &memoryTx{buckets: make(map[string]*btree.BTreeG[pair]), mine: make(map[string]bool)}
	maps.Copy(t.buckets, s.buckets)
	if err := f(t); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.buckets = t.buckets
	return nil
}

func (s *memoryStore) durable() bool { return false }
func (s *memoryStore) close() error  { return nil }

type memoryTx struct {
	buckets map[string]*btree.BTreeG[pair]
	mine    map[string]bool // the ones that were cloned
}

// own returns a bucket that may be changed.
func (t *memoryTx) own(bucket string) *btree.BTreeG[pair] {
	if !t.mine[bucket] {
		if b := t.buckets[bucket]; b != nil {
			t.buckets[bucket] = b.Clone()
		} else {
			t.buckets[bucket] = btree.NewG(16, func(x, y pair) bool { return bytes.Compare(x.key, y.key) < 0 })
		}
		t.mine[bucket] = true
	}
	return t.buckets[bucket]
}

func (t *memoryTx) get(bucket string, key []byte) []byte {
	b := t.buckets[bucket]
	if b == nil {
		return nil
	}
	p, _ := b.Get(pair{key: key})
	return p.value
}

func (t *memoryTx) put(bucket string, key, value []byte) error {
	if value = slices.Clone(value); value == nil {
		value = []byte{} // a key without a value is there, too
	}
	t.own(bucket).ReplaceOrInsert(pair{slices.Clone(key), value})
	return nil
}

func (t *memoryTx) delete(bucket string, key []byte) error {
	if t.get(bucket, key) != nil {
		t.own(bucket).Delete(pair{key: key})
	}
	return nil
}

func (t *memoryTx) each(bucket string, prefix []byte, f func(key, value []byte) bool) {
	b := t.buckets[bucket]
	if b == nil {
		return
	}
	b.AscendGreaterOrEqual(pair{key: prefix}, func(p pair) bool {
		return bytes.HasPrefix(p.key, prefix) && f(p.key, p.value)
	})
}
