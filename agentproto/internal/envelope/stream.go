package envelope

import (
	"encoding/binary"
	"errors"
	"io"
	"strconv"
)

// piece is how many bytes of a stream are sealed together, and most is an upper limit for what
// sealing adds.
const (
	piece = 64 << 10
	most  = 128
)

// The first byte of a sealed piece.
const (
	moreFollow byte = iota
	isLast
)

// SealStream returns a reader of the content of r, sealed for [Envelope.OpenStream]. The output
// consists of pieces, each preceded by its length in four bytes. Each piece is bound to the context
// of the stream and to its position. One piece is kept in memory.
func (e *Envelope) SealStream(r io.Reader, about ...string) io.Reader {
	return &sealing{e: e, r: r, about: about}
}

type sealing struct {
	e     *Envelope
	r     io.Reader
	about []string
	n     int
	rest  []byte // of a sealed piece
	err   error
}

// Read implements [io.Reader].
func (s *sealing) Read(p []byte) (int, error) {
	for len(s.rest) == 0 {
		if s.err != nil {
			return 0, s.err
		}
		text := make([]byte, 1+piece)
		n, err := 0, error(nil)
		for n < piece && err == nil { // io.ReadFull does not distinguish a broken reader from one at its end
			var more int
			more, err = s.r.Read(text[1+n:])
			n += more
		}
		switch {
		case err == io.EOF:
			text[0] = isLast
		case err != nil: // without a last piece, so that the output does not look complete
			s.err = err
			return 0, err
		}
		s.err = err
		sealed := s.e.Seal(text[:1+n], place(s.about, s.n)...)
		s.n++
		s.rest = append(binary.BigEndian.AppendUint32(nil, uint32(len(sealed))), sealed...)
	}
	n := copy(p, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// OpenStream returns a reader of the content that was sealed by [Envelope.SealStream]. Its error is
// [ErrForged] or [ErrStale] if a piece is not the one that belongs at its position, and
// [io.ErrUnexpectedEOF] if the stream was cut off.
func (e *Envelope) OpenStream(r io.Reader, about ...string) io.Reader {
	return &opening{e: e, r: r, about: about}
}

type opening struct {
	e     *Envelope
	r     io.Reader
	about []string
	n     int
	rest  []byte // of an opened piece
	err   error
}

// Read implements [io.Reader].
func (o *opening) Read(p []byte) (int, error) {
	for len(o.rest) == 0 {
		if o.err == nil {
			o.rest, o.err = o.next()
		} else {
			return 0, o.err
		}
	}
	n := copy(p, o.rest)
	o.rest = o.rest[n:]
	return n, nil
}

// next returns the next piece, and [io.EOF] with the last one.
func (o *opening) next() ([]byte, error) {
	var length [4]byte
	if _, err := io.ReadFull(o.r, length[:]); err != nil {
		return nil, cutOff(err)
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > piece+most {
		return nil, ErrForged
	}
	sealed := make([]byte, n)
	if _, err := io.ReadFull(o.r, sealed); err != nil {
		return nil, cutOff(err)
	}
	text, err := o.e.Open(sealed, place(o.about, o.n)...)
	if err != nil {
		return nil, err
	}
	o.n++
	switch {
	case len(text) == 0:
		return nil, ErrForged
	case text[0] == isLast:
		return text[1:], io.EOF
	}
	return text[1:], nil
}

// cutOff returns the error of a stream that ends before its last piece.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// place returns the context of the n-th piece of a stream.
func place(about []string, n int) []string {
	return append(about[:len(about):len(about)], "piece", strconv.Itoa(n))
}
