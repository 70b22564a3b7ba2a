package disklog

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A message is records of one partition that become durable together.
type message struct {
	p        *partition
	position uint64
	tally    tally
	packed   int
	parts    [][][]byte
	file     recordsRef // the file of its records, if it has one
}

// MaxRecord implements [journal.Limited].
func (l *Log) MaxRecord() int { return MaxAppend }

// Append adds records to a partition. Records of other callers may be in the same message.
func (l *Log) Append(ctx context.Context, partition int, records ...[]byte) (uint64, error) {
	if err := l.ready(ctx, partition); err != nil || len(records) == 0 {
		return 0, err
	}
	size, packed := sizeOfRecords(records)
	if size > MaxAppend || packed > maxParts*partSize/2+size {
		return 0, fmt.Errorf("%w: %d bytes of records, %d can be kept together", journal.ErrTooLarge, size, MaxAppend)
	}
	o := &op{add: addRecords, p: &l.partitions[partition], records: records, size: size, packed: packed, purpose: journal.PurposeOf(ctx, journal.ToSend)}
	if packed > messageBytes {
		return l.appendInFile(ctx, o)
	}
	return l.submit(ctx, o)
}

func addRecords(g *group, o *op) {
	l, p := g.l, o.p
	m := p.open
	joins := m != nil && m.packed+o.packed <= messageBytes
	size := int64(o.size)
	if !joins {
		size += overhead
	}
	if o.err = l.admit(o.purpose, size); o.err != nil {
		return
	}
	if !joins {
		m = &message{p: p, position: l.take()}
		m.tally = tally{p.next.end, p.next.records.count + 1, p.next.records.bytes}
		p.open, p.next.end = m, m.position
		p.awaited = p.awaited || o.file.id == 0 && !p.stepped && !p.late && p.readAhead.Load() > 0
		g.messages = append(g.messages, m)
		l.counters.messages.Add(1)
	}
	m.parts = append(m.parts, o.records)
	m.packed += o.packed
	m.file = o.file
	m.tally.bytes += uint64(o.size)
	p.next.records = m.tally
	l.counters.records.Add(uint64(len(o.records)))
	o.result = m.position
}

// write adds a message to the batch when it has all its records.
func (m *message) write(g *group) {
	var records [][]byte // if a tail needs them
	if m.file.id != 0 {
		records = slices.Clone(m.parts[0])
		m.p.newFiles = append(m.p.newFiles, keptFile{m.position, m.file.recordsFile})
		value := m.file.append(m.tally.append(nil))
		setBytes(g.batch, key(kindRecords, m.p.number, m.position), value)
		g.set(kindFile, m.p.number, m.position, varintSize(m.file.id)+varintSize(m.file.size), func(b []byte) []byte {
			return binary.AppendUvarint(binary.AppendUvarint(b, m.file.id), m.file.size)
		})
	} else {
		start := m.tally.size()
		value := m.tally.append(make([]byte, 0, start+m.packed))
		for _, part := range m.parts {
			for _, r := range part {
				value = pack(value, r)
			}
		}
		setBytes(g.batch, key(kindRecords, m.p.number, m.position), value)
		if m.p.readAhead.Load() > 0 {
			records, _ = unpack(value[start:])
		}
	}
	if m.p.readAhead.Load() > 0 {
		m.p.fresh = append(m.p.fresh, written{m.tally.before, m.position, records})
	}
}

// A written is a message for a tail: the position before it, its own, and its records.
type written struct {
	before, position uint64
	records          [][]byte
}
