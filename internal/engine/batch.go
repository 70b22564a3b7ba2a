package engine

import (
	"slices"
	"unsafe"

	"github.com/millrace/millrace/internal/keyed"
)

// Columns are records of keyed data. H is empty if they have not been hashed. They have functions in
// place of methods: the compiler makes all methods of a type in each package that uses it, but only those functions that are called.
type Columns[K comparable, V any] struct {
	K []K
	V []V
	H []uint64
}

// AppendEntry adds a record, with its hash if records have one.
func AppendEntry[K comparable, V any](c *Columns[K, V], hashed bool, k K, v V, h uint64) {
	c.K, c.V = append(c.K, k), append(c.V, v)
	if hashed {
		c.H = append(c.H, h)
	}
}

// AppendEntries adds the records of d, which have a hash if those of c do.
func AppendEntries[K comparable, V any](c *Columns[K, V], d Columns[K, V]) {
	c.K, c.V, c.H = append(c.K, d.K...), append(c.V, d.V...), append(c.H, d.H...)
}

// SliceEntries returns the records from index i up to j. It shares their memory.
func SliceEntries[K comparable, V any](c Columns[K, V], i, j int) Columns[K, V] {
	part := Columns[K, V]{K: c.K[i:j], V: c.V[i:j]}
	if len(c.H) > 0 {
		part.H = c.H[i:j]
	}
	return part
}

// DeleteEntry removes the record with index i.
func DeleteEntry[K comparable, V any](c *Columns[K, V], i int) {
	c.K, c.V = slices.Delete(c.K, i, i+1), slices.Delete(c.V, i, i+1)
	if len(c.H) > 0 {
		c.H = slices.Delete(c.H, i, i+1)
	}
}

// ClearEntries removes all records and keeps the memory. Columns whose values are kept elsewhere have none.
func ClearEntries[K comparable, V any](c *Columns[K, V]) {
	if len(c.K) == 0 {
		return
	}
	if len(c.K) == 1 && len(c.V) == 1 { // as for a record that is sent alone; clear is a call of the runtime
		var k K
		var v V
		c.K[0], c.V[0] = k, v
	} else {
		clear(c.K)
		clear(c.V)
	}
	c.K, c.V, c.H = c.K[:0], c.V[:0], c.H[:0] // only lengths are written, so there are no write barriers
}

// CloneEntries returns a copy that shares no memory with c.
func CloneEntries[K comparable, V any](c Columns[K, V]) Columns[K, V] {
	return Columns[K, V]{slices.Clone(c.K), slices.Clone(c.V), slices.Clone(c.H)}
}

// PushEntries pushes c in batches of at most one block, each through *b.
func PushEntries[K comparable, V any](n *KeyedNode[K, V], c Columns[K, V], b *Batch[K, V]) {
	if len(c.K) == 1 {
		h := uint64(0)
		if len(c.H) > 0 {
			h = c.H[0]
		}
		n.One(c.K[0], c.V[0], h)
		return
	}
	size := min(BlockSize[K](), BlockSize[V]())
	for at := 0; at < len(c.K); at += size {
		end := min(at+size, len(c.K))
		*b = Batch[K, V]{K: c.K[at:end], V: c.V[at:end]}
		if len(c.H) > 0 {
			b.H = c.H[at:end]
		}
		n.Push(b)
	}
	*b = Batch[K, V]{}
}

// Hasher returns the hasher of K. All hashers of a type agree, so that a hash
// column can be passed on.
func Hasher[K comparable]() *keyed.Hasher[K] { return keyed.HasherOf[K]() }

// SingleAsBatch returns a function that pushes an element as a batch of one. A node is never pushed to while it pushes, so one
// buffer suffices.
func SingleAsBatch[T any](push func([]T)) func(T) {
	buf := new([1]T)
	return func(x T) {
		buf[0] = x
		push(buf[:])
		var zero T
		buf[0] = zero
	}
}

// A Batch is a piece of a keyed stream, or of the changes of a keyed singleton, in columns. Like any batch it is borrowed.
type Batch[K comparable, V any] struct {
	K    []K
	V    []V
	H    []uint64 // hashes of K, or nil until an operator needs them
	Gone []bool   // which keys were removed; nil if none was
}

// Hashes returns the hash column. If there is none yet, it computes it into *buf.
func (b *Batch[K, V]) Hashes(h *keyed.Hasher[K], buf *[]uint64) []uint64 {
	if b.H == nil {
		*buf = Resize(*buf, len(b.K))
		h.HashAll(b.K, *buf)
		b.H = *buf
	}
	return b.H
}

// BlockSize is how many elements of T are pushed at once: 8 KiB worth of them.
func BlockSize[T any]() int {
	var x T
	return min(max(8192/max(int(unsafe.Sizeof(x)), 1), 16), 1024)
}

// Resize returns a slice of length n, reusing buf if it is large enough.
func Resize[T any](buf []T, n int) []T {
	if cap(buf) < n {
		return make([]T, n, max(n, 2*cap(buf)))
	}
	return buf[:n]
}

// batchOfOne returns a function that pushes an entry as a batch. A node is never pushed to while it pushes, so one batch
// suffices.
func batchOfOne[K comparable, V any](push func(*Batch[K, V])) func(K, V, uint64) {
	buf := new(struct {
		k [1]K
		v [1]V
		h [1]uint64
		b Batch[K, V]
	})
	return func(k K, v V, h uint64) {
		buf.k[0], buf.v[0], buf.h[0] = k, v, h
		buf.b = Batch[K, V]{K: buf.k[:], V: buf.v[:]}
		if h != 0 {
			buf.b.H = buf.h[:]
		}
		push(&buf.b)
		var k0 K
		var v0 V
		buf.k[0], buf.v[0] = k0, v0
	}
}

// PushBlocks pushes xs in batches of at most one block.
func PushBlocks[T any](n *Node[T], xs []T) {
	if len(xs) == 1 {
		n.One(xs[0])
		return
	}
	for size := BlockSize[T](); len(xs) > 0; {
		k := min(size, len(xs))
		n.Push(xs[:k:k])
		xs = xs[k:]
	}
}
