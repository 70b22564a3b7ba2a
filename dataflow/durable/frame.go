package durable

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"

	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/internal/engine/codec"
)

// Everything that is stored names its history and has a checksum of its own, whatever the log does: a log
// returns what it finds, and a bit that flips below the log is a wrong number above it.
//
//	frame   version, 4 bytes of the history's identity, CRC-32C of all of the rest
//	record  frame, floor, the record
//	batch   frame, floor, the number of records, and each record after its length
//	step    frame, and what step.encode says; begins with a link to the step before
//	snapshot  frame, and what snapshot.encode says
//
// The checksum covers the number of the partition as well, so that data of another partition is noticed.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const frameSize = 1 + 4 + 4

// An origin says which partition of which history something belongs to.
type origin struct {
	history   [4]byte // the first bytes of the log's identity
	partition int
}

func (c *core) originOf(partition int) origin {
	id := c.log.Identity()
	return origin{[4]byte(id[:4]), partition}
}

func (o origin) checksum(data []byte) uint32 {
	sum := ^uint32(0)
	for i := range 8 { // the partition; crc32.Update would allocate its eight bytes
		sum = castagnoli[byte(sum)^byte(uint64(o.partition)>>(8*i))] ^ sum>>8
	}
	return crc32.Update(^sum, castagnoli, data)
}

// begin begins a frame of the given version.
func (o origin) begin(dst []byte, version byte) []byte {
	dst = append(dst, version)
	dst = append(dst, o.history[:]...)
	return append(dst, 0, 0, 0, 0)
}

// seal completes the frame that consists of all of data.
func (o origin) seal(data []byte) []byte {
	binary.LittleEndian.PutUint32(data[5:], o.checksum(data[frameSize:]))
	return data
}

// open returns the content of a frame.
func (o origin) open(what string, version byte, data []byte) ([]byte, error) {
	switch {
	case len(data) == 0:
		return nil, fmt.Errorf("durable: a %s is empty", what)
	case data[0] != version:
		return nil, wrongVersion(what, data[0], version)
	case len(data) < frameSize:
		return nil, fmt.Errorf("durable: a %s is damaged: it has %d bytes", what, len(data))
	case [4]byte(data[1:5]) != o.history:
		return nil, fmt.Errorf("durable: a %s is of another history: %x, and this one is %x", what, data[1:5], o.history)
	case binary.LittleEndian.Uint32(data[5:]) != o.checksum(data[frameSize:]):
		return nil, fmt.Errorf("durable: a %s is damaged: its checksum does not fit", what)
	}
	return data[frameSize:], nil
}

// The versions of the frames of one record and of several. A program from before there were batches refuses their
// version.
const (
	recordVersion = 1
	batchVersion  = 2
)

// record appends a record in a frame. The floor is the number of the latest step of the partition that is known
// to be committed when the record is sent: a history whose last step is before it is older than its records.
func (o origin) record(dst []byte, floor uint64, record []byte) []byte {
	at := len(dst)
	dst = binary.AppendUvarint(o.begin(dst, recordVersion), floor)
	dst = append(dst, record...)
	o.seal(dst[at:])
	return dst
}

// batch returns records that are sent together in one frame.
func (o origin) batch(floor uint64, records [][]byte) []byte {
	if len(records) == 1 {
		return o.record(make([]byte, 0, frameSize+binary.MaxVarintLen64+len(records[0])), floor, records[0])
	}
	size := frameSize + 2*binary.MaxVarintLen64
	for _, r := range records {
		size += binary.MaxVarintLen32 + len(r)
	}
	dst := binary.AppendUvarint(o.begin(make([]byte, 0, size), batchVersion), floor)
	dst = binary.AppendUvarint(dst, uint64(len(records)))
	for _, r := range records {
		dst = codec.AppendBytes(dst, r)
	}
	return o.seal(dst)
}

// append makes records durable that nothing holds back.
func (c *core) append(ctx context.Context, p int, records ...[]byte) (position uint64, err error) {
	return c.counted(ctx, p, false, c.write, records)
}

// counted counts records in the backlog of their partition, while write makes them durable and until a step
// takes them. If they are held back, it first waits for space.
func (c *core) counted(ctx context.Context, p int, heldBack bool, write func(context.Context, int, ...[]byte) (uint64, error), records [][]byte) (position uint64, err error) {
	size := lagOf(records)
	if !heldBack {
		ctx = journal.For(ctx, journal.ToGoOn)
	}
	if err = c.gateway.sending(ctx, p, size, heldBack); err != nil {
		return 0, err
	}
	position, err = write(ctx, p, records...)
	c.gateway.partitions[p].sent(size, position, err)
	return position, err
}

// write makes records durable, in one frame. All records go to the log through it.
func (c *core) write(ctx context.Context, p int, records ...[]byte) (position uint64, err error) {
	pg := c.gateway.partitions[p]
	var frames [][]byte
	if len(records) > 0 {
		frames = [][]byte{c.originOf(p).batch(pg.floor.Load(), records)}
	}
	position, err = c.log.Append(ctx, p, frames...)
	for {
		known := pg.acknowledged.Load()
		if position <= known || pg.acknowledged.CompareAndSwap(known, position) {
			return position, err
		}
	}
}

// A message is records that were sent together, which a step takes together.
type message struct {
	position uint64
	records  [][]byte
	floor    uint64 // the greatest of its records' floors
	digest   uint32 // of all its bytes
}

// message decodes a message of the log.
func (o origin) message(m journal.Message) (out message, err error) {
	out.position = m.Position
	for i, data := range m.Records {
		if err := out.add(o, data); err != nil {
			return message{}, fmt.Errorf("record %d of message %d: %w", i+1, m.Position, err)
		}
	}
	return out, nil
}

// add adds what is in a frame.
func (m *message) add(o origin, data []byte) error {
	version := byte(recordVersion)
	if len(data) > 0 && data[0] >= batchVersion {
		version = batchVersion
	}
	in, err := o.open("record", version, data)
	if err != nil {
		return err
	}
	floor, n := binary.Uvarint(in)
	if n <= 0 {
		return errors.New("durable: a record is damaged: it has no floor")
	}
	if version == recordVersion {
		m.records = append(m.records, in[n:])
	} else if m.records, err = appendBatch(m.records, in[n:]); err != nil {
		return err
	}
	m.floor = max(m.floor, floor)
	m.digest = crc32.Update(m.digest, castagnoli, data)
	return nil
}

// appendBatch appends the records of a batch, which share data's memory.
func appendBatch(records [][]byte, data []byte) ([][]byte, error) {
	d := codec.Decoder{Data: data}
	n := d.Uint()
	if n > uint64(len(d.Data)) { // each record has a length
		return nil, errBatch
	}
	records = slices.Grow(records, int(n))
	for range n {
		records = append(records, d.Bytes())
	}
	if d.Err != nil || len(d.Data) > 0 {
		return nil, errBatch
	}
	return records, nil
}

var errBatch = errors.New("durable: a batch of records is damaged")

// A link is a digest of a step and of all steps before it.
type link [16]byte

// after returns the link to an encoded step.
func after(step []byte) link {
	sum := sha256.Sum256(step)
	return link(sum[:16])
}

// An inputPosition says how far a partition has taken its records.
type inputPosition struct {
	taken  uint64 // position of the last message
	digest uint32 // of that message
	all    uint64 // digest of the positions and digests of all messages
}

// take adds a message.
func (in *inputPosition) take(m *message) {
	var b [8 + 8 + 4]byte
	binary.LittleEndian.PutUint64(b[:], in.all)
	binary.LittleEndian.PutUint64(b[8:], m.position)
	binary.LittleEndian.PutUint32(b[16:], m.digest)
	sum := sha256.Sum256(b[:])
	*in = inputPosition{m.position, m.digest, binary.LittleEndian.Uint64(sum[:])}
}

func (in inputPosition) encode(dst []byte) []byte {
	dst = binary.AppendUvarint(dst, in.taken)
	dst = binary.LittleEndian.AppendUint32(dst, in.digest)
	return binary.LittleEndian.AppendUint64(dst, in.all)
}

func (in *inputPosition) decode(r *reader) {
	in.taken = r.uint()
	if b := r.skip(4); b != nil {
		in.digest = binary.LittleEndian.Uint32(b)
	}
	if b := r.skip(8); b != nil {
		in.all = binary.LittleEndian.Uint64(b)
	}
}
