package codec

import "sync"

// A Slab is memory for many encodings, which are made one after another and freed together. The zero value is ready to use.
type Slab struct {
	free    []byte
	chunks  []*[slabSize]byte // that Free gives back, as it does records
	records *[]Record
}

// slabSize bounds how much is allocated at once for smaller encodings.
const slabSize = 64 << 10

// chunks holds memory of slabs that were freed. Batches that are sent to a history would otherwise be most of the garbage.
var chunks = sync.Pool{New: func() any { return new([slabSize]byte) }}

// Batches of fewer records are not worth keeping their memory, and those of more would keep too much.
const (
	fewRecords  = 256
	manyRecords = 8192
)

// batches holds the records of slabs that were freed.
var batches = sync.Pool{New: func() any { return new([]Record) }}

// Records returns n zero records, which Free has used again as well. It is called at most once.
func (s *Slab) Records(n int) []Record {
	if n < fewRecords || n > manyRecords {
		return make([]Record, n)
	}
	s.records = batches.Get().(*[]Record)
	if cap(*s.records) < n {
		*s.records = make([]Record, n)
	}
	*s.records = (*s.records)[:n]
	return *s.records
}

// Begin returns a slice to which to append the next encoding. It expects about size bytes for this one and for each of those that
// follow, n in all.
func (s *Slab) Begin(size, n int) []byte {
	if cap(s.free) < size {
		switch {
		case size > slabSize:
			s.free = make([]byte, 0, size)
		case n < slabSize/size: // a product could overflow
			s.free = make([]byte, 0, size*n)
		default:
			chunk := chunks.Get().(*[slabSize]byte)
			s.chunks = append(s.chunks, chunk)
			s.free = chunk[:0]
		}
	}
	return s.free[:0]
}

// Free has the memory of all encodings and records used again. The caller must not use any of them any longer. A slab that is not
// freed is collected as garbage.
func (s *Slab) Free() {
	for _, chunk := range s.chunks {
		chunks.Put(chunk)
	}
	if s.records != nil {
		clear(*s.records)
		batches.Put(s.records)
	}
	*s = Slab{}
}

// End completes an encoding that was appended to what Begin returned. If it was larger than expected, append has moved it.
func (s *Slab) End(b []byte) []byte {
	if n := len(b); n > 0 && cap(s.free) > 0 && &b[0] == &s.free[:1][0] {
		s.free = s.free[n:n:cap(s.free)]
	}
	return b[:len(b):len(b)]
}

// AppendPointed appends the encoding of what p points to, without its length. A [PointerCodec] does so without copying it.
func AppendPointed(dst []byte, c Codec, p any) ([]byte, error) {
	if by, ok := c.(PointerCodec); ok {
		return by.AppendPointed(dst, p)
	}
	return c.Append(dst, pointed(p))
}
