package disklog

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math/bits"
)

// A key is a kind, a partition and a number, and sometimes an index:
//
//	kind (1 byte) | partition (4) | number (8) | index (4)
//
// All numbers are big-endian, so the keys of a partition sort by number. A value that is larger
// than partSize has further parts under its key with the index 1, 2, and so on. A part is
//
//	checksum of key and value (4) | how many parts follow (varint, not in further parts) | bytes
//
// Parts are small because of what pebble does when the checksum of a block is wrong: it tries each
// bit of the first 40 KiB with a checksum of the whole block. That takes less than a second for a
// block of this size, and minutes for one of some mebibytes.
type kind byte

const partSize = 32 << 10

const (
	kindCounter       kind = 'c' // one value: numbers below it may have been given out
	kindFile          kind = 'f' // a message whose records are in a file: the name of that
	kindIdentity      kind = 'i' // one value: the same text as in the file
	kindSnapshot      kind = 'm' // the latest snapshot, or where its pieces are; number 0
	kindSnapshotPiece kind = 'n' // number and index of a piece of a snapshot
	kindStatePiece    kind = 'o' // number and index of a part of a piece of the state
	kindPurged        kind = 'p' // up to where records were purged; number 0
	kindPieceSize     kind = 'q' // how large a piece of the state is; its number
	kindRecords       kind = 'r' // a message; its number is its position
	kindStep          kind = 's' // a step, or where its pieces are; its number is the fence
	kindStepPiece     kind = 't' // number and index of a piece of a step
)

const (
	keySize      = 1 + 4 + 8
	pieceKeySize = keySize + 4
	sumSize      = 4
)

func key(k kind, partition int, number uint64) []byte {
	return appendKey(make([]byte, 0, pieceKeySize), k, partition, number)
}

func appendKey(b []byte, k kind, partition int, number uint64) []byte {
	b = append(b, byte(k))
	b = binary.BigEndian.AppendUint32(b, uint32(partition))
	return binary.BigEndian.AppendUint64(b, number)
}

func pieceKey(k kind, partition int, number uint64, index int) []byte {
	return binary.BigEndian.AppendUint32(key(k, partition, number), uint32(index))
}

// numberOf returns the number in a key.
func numberOf(key []byte) uint64 { return binary.BigEndian.Uint64(key[5:]) }

// pieceIndexOf returns the index in the key of a piece.
func pieceIndexOf(key []byte) int { return int(binary.BigEndian.Uint32(key[keySize:])) }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal fills in the checksum at the start of a value. It covers the key too, so a value under
// another key is noticed.
func seal(key, value []byte) {
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value[sumSize:])
	binary.BigEndian.PutUint32(value, sum)
}

var (
	errSum   = errors.New("its checksum is wrong")
	errShort = errors.New("it is cut short")
)

// open checks the checksum of a value and returns the rest of it.
func open(key, value []byte) ([]byte, error) {
	if len(value) < sumSize {
		return nil, errShort
	}
	sum := crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, value[sumSize:])
	if sum != binary.BigEndian.Uint32(value) {
		return nil, errSum
	}
	return value[sumSize:], nil
}

// A tally is the part of a message or a step that describes the previous ones of its partition. The
// difference between two tallies says how much is kept between them, without reading it.
type tally struct {
	before uint64 // the position or fence of the previous one, zero if there was none
	count  uint64 // how many there were, including this one
	bytes  uint64 // how many bytes they had, including this one
}

func (t tally) append(b []byte) []byte {
	b = binary.AppendUvarint(b, t.before)
	b = binary.AppendUvarint(b, t.count)
	return binary.AppendUvarint(b, t.bytes)
}

func (t tally) size() int { return varintSize(t.before) + varintSize(t.count) + varintSize(t.bytes) }

func varintSize(n uint64) int { return (max(bits.Len64(n), 1) + 6) / 7 }

// A decoder reads numbers from the front of a value.
type decoder struct {
	rest []byte
	err  error
}

func (d *decoder) number() uint64 {
	n, used := binary.Uvarint(d.rest)
	if used <= 0 {
		d.rest, d.err = nil, errShort
		return 0
	}
	d.rest = d.rest[used:]
	return n
}

func (d *decoder) tally() tally { return tally{d.number(), d.number(), d.number()} }

// sizeOfRecords returns how many bytes records have, and how many they
// take when packed in a message.
func sizeOfRecords(records [][]byte) (size, packed int) {
	for _, r := range records {
		size += len(r)
		packed += len(r) + varintSize(uint64(len(r)))
	}
	return size, packed
}

// unpack returns the records of a message, as slices of it.
func unpack(message []byte) ([][]byte, error) {
	n := 0
	for b := message; len(b) > 0; n++ {
		size, used := binary.Uvarint(b)
		if used <= 0 || size > uint64(len(b)-used) {
			return nil, errShort
		}
		b = b[used+int(size):]
	}
	records := make([][]byte, 0, n)
	for len(message) > 0 {
		size, used := binary.Uvarint(message)
		end := used + int(size)
		records = append(records, message[used:end:end])
		message = message[end:]
	}
	return records, nil
}

// A parcel is the stored form of a step or a snapshot: its bytes, or where its pieces are.
type parcel struct {
	data  []byte // set if id is zero
	id    uint64 // the number of the pieces
	size  uint64 // total size
	piece uint64 // size of each piece except the last
}

func (p parcel) append(b []byte) []byte {
	b = binary.AppendUvarint(b, p.id)
	if p.id == 0 {
		return append(b, p.data...)
	}
	b = binary.AppendUvarint(b, p.size)
	return binary.AppendUvarint(b, p.piece)
}

// packed returns how many bytes append adds.
func (p parcel) packed() int {
	if p.id == 0 {
		return 1 + len(p.data)
	}
	return varintSize(p.id) + varintSize(p.size) + varintSize(p.piece)
}

func (d *decoder) parcel() (p parcel) {
	if p.id = d.number(); p.id == 0 {
		p.data, p.size = d.rest, uint64(len(d.rest))
		return p
	}
	p.size, p.piece = d.number(), d.number()
	if d.err == nil && (p.piece == 0 || p.size > maxParcel) {
		d.err = errShort
	}
	return p
}
