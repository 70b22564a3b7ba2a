package vault

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
)

// The parts of bbolt's file layout that are used here. Numbers have the byte order of the machine.
// A page has a header of 16 bytes: its number (8), flags (2), the number of elements (2), and the
// number of following pages that belong to it (4). The header is followed by elements of 16 bytes,
// and then by keys and values, to which an element points relative to its own position.
const (
	pageHead     = 16
	elementBytes = 16
	metaBytes    = 64

	branchPage   = 0x01
	leafPage     = 0x02
	freelistPage = 0x10

	metaMagic  = 0xED0CDAED
	noFreelist = ^uint64(0)

	maxDepth = 64 // depth limit of a tree; a tree of 64 levels would be larger than any disk
)

// A checkedFile is the result of checkFile.
type checkedFile struct {
	txid  uint64 // of the last change
	sum   uint64 // of all records except the sum's own
	known *storeSum
}

// A storeSum is written to a store with each change, so that a changed or missing record is noticed
// when the store is opened.
type storeSum struct {
	ID  [16]byte // of the store
	Sum uint64   // the sum of recordSum over all records
}

const (
	sumBucket = "sum"
	sumKey    = "sum"
	sumBytes  = 32
)

func (s storeSum) encode() []byte {
	b := append([]byte(nil), s.ID[:]...)
	b = binary.BigEndian.AppendUint64(b, s.Sum)
	d := sha256.Sum256(b)
	return append(b, d[:8]...)
}

func decodeSum(b []byte) (s storeSum, ok bool) {
	if len(b) != sumBytes {
		return s, false
	}
	copy(s.ID[:], b)
	s.Sum = binary.BigEndian.Uint64(b[16:])
	return s, bytes.Equal(s.encode(), b)
}

// recordSum returns what one record adds to the sum of a store.
func recordSum(bucket string, key, value []byte) uint64 {
	h := sha256.New()
	var n [16]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(bucket)))
	binary.BigEndian.PutUint64(n[8:], uint64(len(key)))
	h.Write(n[:])
	io.WriteString(h, bucket)
	h.Write(key)
	h.Write(value)
	return binary.BigEndian.Uint64(h.Sum(n[:0]))
}

// A fileCheck reads a bbolt file, each page once.
type fileCheck struct {
	f       io.ReaderAt
	size    int64
	page    int64 // bytes per page
	pages   uint64
	visited map[uint64]bool
	found   checkedFile
}

// ErrDamaged says that a file does not contain what was written.
var ErrDamaged = errors.New("damaged")

func damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrDamaged, fmt.Sprintf(format, args...))
}

// checkFile reads every used page of a bbolt file. bbolt itself trusts the file, and could read
// beyond its end or forever. checkFile returns an error that wraps ErrDamaged if something differs
// from what was written. The caller must hold the lock of the file.
func checkFile(f io.ReaderAt, size int64) (checkedFile, error) {
	c := &fileCheck{f: f, size: size, visited: make(map[uint64]bool)}
	root, freelist, err := c.meta()
	if err != nil {
		return c.found, err
	}
	if c.pages > uint64(size/c.page) {
		return c.found, damaged("it has %d bytes, and %d pages of %d bytes are in use", size, c.pages, c.page)
	}
	if err := c.tree(root, nil, nil, 0, c.bucket); err != nil {
		return c.found, err
	}
	if freelist != noFreelist {
		if err := c.freelist(freelist); err != nil {
			return c.found, err
		}
	}
	if c.found.known != nil && c.found.known.Sum != c.found.sum {
		return c.found, damaged("its records are not those that were written")
	}
	return c.found, nil
}

// meta reads the two meta pages, which describe the file. The newer valid one counts.
func (c *fileCheck) meta() (root, freelist uint64, err error) {
	good := false
	read := func(at int64) bool {
		b := make([]byte, pageHead+metaBytes)
		if _, err := c.f.ReadAt(b, at); err != nil {
			return false
		}
		b = b[pageHead:]
		h := fnv.New64a()
		h.Write(b[:metaBytes-8])
		if e := binary.NativeEndian; e.Uint32(b) != metaMagic || e.Uint64(b[56:]) != h.Sum64() {
			return false
		}
		e := binary.NativeEndian
		size, txid := int64(e.Uint32(b[8:])), e.Uint64(b[48:])
		if size < 512 || size > 1<<20 || at != 0 && at != size {
			return false
		}
		if c.page = size; !good || txid > c.found.txid {
			root, freelist, c.pages, c.found.txid = e.Uint64(b[16:]), e.Uint64(b[32:]), e.Uint64(b[40:]), txid
		}
		good = true
		return true
	}
	if read(0) {
		read(c.page)
	} else {
		for at := int64(512); at <= 1<<20 && !read(at); at *= 2 {
		}
	}
	if !good {
		return 0, 0, damaged("neither of its first two pages is whole")
	}
	return root, freelist, nil
}

// read returns a page together with the following pages that belong to it.
func (c *fileCheck) read(id uint64) ([]byte, error) {
	if id < 2 || id >= c.pages {
		return nil, damaged("there is no page %d", id)
	}
	var head [pageHead]byte
	if _, err := c.f.ReadAt(head[:], int64(id)*c.page); err != nil {
		return nil, damaged("page %d cannot be read: %v", id, err)
	}
	more := uint64(binary.NativeEndian.Uint32(head[12:]))
	if binary.NativeEndian.Uint64(head[:]) != id || more >= c.pages-id {
		return nil, damaged("page %d is not what it should be", id)
	}
	for i := id; i <= id+more; i++ {
		if c.visited[i] {
			return nil, damaged("page %d is used twice", i)
		}
		c.visited[i] = true
	}
	p := make([]byte, int64(more+1)*c.page)
	if _, err := c.f.ReadAt(p, int64(id)*c.page); err != nil {
		return nil, damaged("page %d cannot be read: %v", id, err)
	}
	return p, nil
}

// tree calls leaf for each element of a tree. The keys must be at least low and less than high,
// where these are not nil.
func (c *fileCheck) tree(id uint64, low, high []byte, depth int, leaf func(flags uint32, key, value []byte) error) error {
	if depth > maxDepth {
		return damaged("page %d is too deep", id)
	}
	p, err := c.read(id)
	if err != nil {
		return err
	}
	return c.elements(p, id, low, high, depth, leaf)
}

// elements processes the elements of one page.
func (c *fileCheck) elements(p []byte, id uint64, low, high []byte, depth int, leaf func(flags uint32, key, value []byte) error) error {
	e := binary.NativeEndian
	flags, count := e.Uint16(p[8:]), int(e.Uint16(p[10:]))
	if flags != branchPage && flags != leafPage || pageHead+count*elementBytes > len(p) || flags == branchPage && count == 0 {
		return damaged("page %d is not what it should be", id)
	}
	// element returns the flags or child page of an element, and its key and value.
	element := func(i int) (a uint32, child uint64, key, value []byte, err error) {
		at := pageHead + i*elementBytes
		b := p[at:]
		var start, keySize, valueSize uint64
		if flags == branchPage {
			start, keySize, child = uint64(e.Uint32(b)), uint64(e.Uint32(b[4:])), e.Uint64(b[8:])
		} else {
			a, start, keySize, valueSize = e.Uint32(b), uint64(e.Uint32(b[4:])), uint64(e.Uint32(b[8:])), uint64(e.Uint32(b[12:]))
		}
		if start += uint64(at); start+keySize+valueSize > uint64(len(p)) {
			return 0, 0, nil, nil, damaged("page %d points out of itself", id)
		}
		return a, child, p[start : start+keySize], p[start+keySize : start+keySize+valueSize], nil
	}
	last := low
	for i := range count {
		a, child, key, value, err := element(i)
		if err != nil {
			return err
		}
		order := bytes.Compare(key, last)
		if last != nil && (order < 0 || order == 0 && i > 0) || high != nil && bytes.Compare(key, high) >= 0 {
			return damaged("the keys of page %d are not in order", id)
		}
		last = key
		if flags == leafPage {
			if err := leaf(a, key, value); err != nil {
				return err
			}
			continue
		}
		next := high
		if i+1 < count {
			if _, _, next, _, err = element(i + 1); err != nil {
				return err
			}
		}
		if err := c.tree(child, key, next, depth+1, leaf); err != nil {
			return err
		}
	}
	return nil
}

// bucket processes a bucket. A small bucket is stored in the element itself, as a page.
func (c *fileCheck) bucket(flags uint32, name, value []byte) error {
	if flags != 1 || len(value) < 16 {
		return damaged("a bucket is not what it should be")
	}
	bucket := string(name)
	record := func(flags uint32, key, value []byte) error {
		if flags != 0 {
			return damaged("a record of %q is not what it should be", bucket)
		}
		if bucket == sumBucket && string(key) == sumKey {
			known, ok := decodeSum(value)
			if !ok {
				return damaged("its sum is not what was written")
			}
			c.found.known = &known
			return nil
		}
		c.found.sum += recordSum(bucket, key, value)
		return nil
	}
	if root := binary.NativeEndian.Uint64(value); root != 0 {
		return c.tree(root, nil, nil, 0, record)
	}
	p := value[16:]
	if len(p) < pageHead || binary.NativeEndian.Uint16(p[8:]) != leafPage {
		return damaged("a bucket is not what it should be")
	}
	return c.elements(p, 0, nil, nil, 0, record)
}

// freelist checks the list of free pages: none of them may be used.
func (c *fileCheck) freelist(id uint64) error {
	p, err := c.read(id)
	if err != nil {
		return err
	}
	e := binary.NativeEndian
	n, at := uint64(e.Uint16(p[10:])), pageHead
	if n == 0xFFFF {
		n, at = e.Uint64(p[at:]), at+8
	}
	if e.Uint16(p[8:]) != freelistPage || n > uint64(len(p)-at)/8 {
		return damaged("the list of free pages is not what it should be")
	}
	for i := range int(n) {
		if free := e.Uint64(p[at+8*i:]); free < 2 || free >= c.pages || c.visited[free] {
			return damaged("page %d is used and free", free)
		}
	}
	return nil
}
