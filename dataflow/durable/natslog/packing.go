package natslog

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Everything that is stored starts with the version of its format.
const version = 1

func damaged(what string) error { return fmt.Errorf("%w: %s", journal.ErrDamaged, what) }

// packed returns how many bytes a record takes in a message.
func packed(record []byte) int {
	n := len(record)
	return n + (max(bits.Len(uint(n)), 1)+6)/7
}

// pack adds a record to a message. An empty message gets the version first.
func pack(message, record []byte) []byte {
	if len(message) == 0 {
		message = append(message, version)
	}
	message = binary.AppendUvarint(message, uint64(len(record)))
	return append(message, record...)
}

// unpack returns the records of a message, as slices of it.
func unpack(message []byte) ([][]byte, error) {
	if len(message) == 0 || message[0] != version {
		return nil, damaged("a message of records of an unknown version")
	}
	rest := message[1:]
	n := 0
	for b := rest; len(b) > 0; n++ {
		size, used := binary.Uvarint(b)
		if used <= 0 || size > uint64(len(b)-used) {
			return nil, damaged("a record is cut short")
		}
		b = b[used+int(size):]
	}
	records := make([][]byte, 0, n)
	for len(rest) > 0 {
		size, used := binary.Uvarint(rest)
		records = append(records, rest[used:used+int(size):used+int(size)])
		rest = rest[used+int(size):]
	}
	return records, nil
}

// A parcel is the stored form of a step or a snapshot: its bytes, or where their pieces are.
type parcel struct {
	number uint64 // the fence that a step was committed with, or that a snapshot is at
	data   []byte // if there are no pieces
	pieces []uint64
	size   uint64 // of all pieces
	sum    uint32 // of all pieces, CRC-32C
}

const (
	whole    = 0
	inPieces = 1
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func (p parcel) pack() []byte {
	if p.pieces == nil {
		b := make([]byte, 0, 2+binary.MaxVarintLen64+len(p.data))
		b = append(b, version, whole)
		b = binary.AppendUvarint(b, p.number)
		return append(b, p.data...)
	}
	b := []byte{version, inPieces}
	b = binary.AppendUvarint(b, p.number)
	b = binary.AppendUvarint(b, p.size)
	b = binary.LittleEndian.AppendUint32(b, p.sum)
	last := uint64(0)
	for _, sequence := range p.pieces {
		b = binary.AppendVarint(b, int64(sequence-last))
		last = sequence
	}
	return b
}

func unpackParcel(b []byte) (p parcel, err error) {
	if len(b) < 2 || b[0] != version || b[1] > inPieces {
		return parcel{}, damaged("a step or a snapshot of an unknown version")
	}
	kind, rest := b[1], b[2:]
	skip := func(used int) {
		if used <= 0 {
			err = damaged("a step or a snapshot is cut short")
			used = len(rest)
		}
		rest = rest[used:]
	}
	number := func() uint64 {
		n, used := binary.Uvarint(rest)
		skip(used)
		return n
	}
	p.number = number()
	if kind == whole {
		p.data = rest
		return p, err
	}
	p.size = number()
	if len(rest) < 4 {
		return parcel{}, damaged("a list of pieces is cut short")
	}
	p.sum, rest = binary.LittleEndian.Uint32(rest), rest[4:]
	p.pieces = []uint64{}
	for last := uint64(0); len(rest) > 0; {
		distance, used := binary.Varint(rest)
		skip(used)
		last += uint64(distance)
		p.pieces = append(p.pieces, last)
	}
	return p, err
}

// first returns the sequence of the first piece, or that of the message
// itself if there are no pieces.
func (p parcel) first(message uint64) uint64 {
	if len(p.pieces) > 0 {
		return p.pieces[0]
	}
	return message
}

// packNumber and unpackNumber encode the position up to which records were purged.
func packNumber(n uint64) []byte { return binary.AppendUvarint([]byte{version}, n) }

func unpackNumber(b []byte) (uint64, error) {
	if len(b) < 2 || b[0] != version {
		return 0, damaged("a mark of an unknown version")
	}
	n, used := binary.Uvarint(b[1:])
	if used != len(b)-1 {
		return 0, damaged("a mark is cut short")
	}
	return n, nil
}
