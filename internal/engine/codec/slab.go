package codec

// A Slab is memory for many encodings, which are made one behind the other and go away together. The zero value is ready to use.
type Slab struct{ free []byte }

// slabSize bounds how much is allocated at once for encodings that are smaller.
const slabSize = 64 << 10

// Begin returns where to append the next encoding. About size bytes are expected, and those that follow, n in all, to be of the same
// size.
func (s *Slab) Begin(size, n int) []byte {
	if cap(s.free) < size {
		s.free = make([]byte, 0, max(size, min(size*n, slabSize)))
	}
	return s.free[:0]
}

// End returns an encoding that was appended to what Begin returned. If it was larger than expected, append has moved it.
func (s *Slab) End(b []byte) []byte {
	if n := len(b); n > 0 && cap(s.free) > 0 && &b[0] == &s.free[:1][0] {
		s.free = s.free[n:n:cap(s.free)]
	}
	return b[:len(b):len(b)]
}

// AppendPointed appends the encoding of what p points to, without its length. A [PointerCodec] needs no copy of it.
func AppendPointed(dst []byte, c Codec, p any) ([]byte, error) {
	if by, ok := c.(PointerCodec); ok {
		return by.AppendPointed(dst, p)
	}
	return c.Append(dst, pointed(p))
}
