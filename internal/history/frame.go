package history

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

const magic = "MRH1"

// Kinds of frames.
const (
	kindHeader = 1 + iota
	kindSteps
	kindEnd
)

// MaxFrame is the maximum length of the payload of a frame. A frame of steps holds one block of
// steps, or a single step that is larger than a block.
const MaxFrame = 1 << 28

// crc8 is the table of the CRC-8 with the polynomial x⁸+x²+x+1. It detects every change within
// eight consecutive bits, and so a change of any one byte.
var crc8 = func() (table [256]byte) {
	for i := range table {
		c := byte(i)
		for range 8 {
			if c&0x80 != 0 {
				c = c<<1 ^ 0x07
			} else {
				c <<= 1
			}
		}
		table[i] = c
	}
	return table
}()

// castagnoli is the table for the sum of a frame.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// check returns the check of a length and kind. Its initial value is not 0, so that zeros are
// not a valid frame.
func check(head []byte) byte {
	c := byte(0x5a)
	for _, b := range head {
		c = crc8[c^b]
	}
	return c
}

// headRoom is the maximum number of bytes before a payload.
const headRoom = binary.MaxVarintLen32 + 2

// appendFrame appends a frame.
func appendFrame(dst []byte, kind byte, payload []byte) []byte {
	at := len(dst)
	dst = binary.AppendUvarint(dst, uint64(len(payload)))
	dst = append(dst, kind)
	dst = append(dst, check(dst[at:]))
	dst = append(dst, payload...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[at:], castagnoli))
}

// An Error reports that a file is not a history, or is damaged.
type Error struct {
	Offset int64  // of the frame with the defect
	What   string // the defect, and what to do
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("history: at byte %d: %s", e.Offset, e.What) }

// frames reads frames.
type frames struct {
	r    *bufio.Reader
	at   int64 // offset of the current frame
	next int64 // offset of the next byte to read
	buf  bytes.Buffer
}

// errCut is returned if the file ends within a frame.
var errCut = errors.New("cut off")

// bad returns an error at the current frame.
func (f *frames) bad(format string, args ...any) error {
	return &Error{f.at, fmt.Sprintf(format, args...)}
}

// failed converts an error of the reader.
func (f *frames) failed(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errCut
	}
	return fmt.Errorf("history: reading at byte %d: %w", f.next, err)
}

const otherCopy = "the file was changed or damaged: use another copy"

// begin reads the beginning of the file.
func (f *frames) begin() error {
	var got [len(magic)]byte
	n, err := io.ReadFull(f.r, got[:])
	if err != nil && (err != io.EOF && err != io.ErrUnexpectedEOF) {
		return f.failed(err)
	}
	f.next = int64(n)
	switch {
	case string(got[:]) == magic:
		return nil
	case n == 0:
		return f.bad("the file is empty")
	case n >= 3 && string(got[:3]) == magic[:3]:
		return f.bad("the file begins with %q and not with %q: it was made by another version, or damaged", got[:n], magic)
	}
	return f.bad("the file begins with %q: it is no history", got[:n])
}

// frame reads the next frame. The payload is valid until the next call. It returns io.EOF at the
// end of the file, and errCut if the file ends within the frame.
func (f *frames) frame() (kind byte, payload []byte, err error) {
	f.at = f.next
	var room [headRoom]byte
	head := room[:0]
	length := uint64(0)
	for {
		b, err := f.r.ReadByte()
		if err == io.EOF && len(head) == 0 {
			return 0, nil, io.EOF
		}
		if err != nil {
			return 0, nil, f.failed(err)
		}
		f.next++
		head = append(head, b)
		length |= uint64(b&0x7f) << (7 * (len(head) - 1))
		if b < 0x80 {
			break
		}
		if len(head) == binary.MaxVarintLen32 {
			return 0, nil, f.bad("the frame has no length: %s", otherCopy)
		}
	}
	for range 2 {
		b, err := f.r.ReadByte()
		if err != nil {
			return 0, nil, f.failed(err)
		}
		f.next++
		head = append(head, b)
	}
	n := len(head) - 1
	if check(head[:n]) != head[n] {
		return 0, nil, f.bad("the length and kind of the frame do not have their check: %s", otherCopy)
	}
	if length > MaxFrame {
		return 0, nil, f.bad("the frame has %d bytes, more than %d", length, MaxFrame)
	}
	// The buffer grows with the data that exists, and not with the length that the frame claims.
	f.buf.Reset()
	got, err := io.CopyN(&f.buf, f.r, int64(length)+4)
	f.next += got
	if err != nil {
		return 0, nil, f.failed(err)
	}
	all := f.buf.Bytes()
	payload = all[:length]
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, payload)
	if sum != binary.LittleEndian.Uint32(all[length:]) {
		return 0, nil, f.bad("the frame, which ends at byte %d, does not have its checksum: %s", f.next, otherCopy)
	}
	return head[n-1], payload, nil
}
