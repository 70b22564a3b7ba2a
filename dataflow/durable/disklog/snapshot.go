package disklog

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// SaveSnapshot replaces the latest snapshot. It writes the pieces of the new one first. The batch
// that refers to them deletes the pieces of the old one.
func (l *Log) SaveSnapshot(ctx context.Context, partition int, after, at uint64, state []byte) error {
	if err := l.ready(ctx, partition); err != nil {
		return err
	}
	p := &l.partitions[partition]
	switch now := p.state(); {
	case at > now.fence:
		return fmt.Errorf("disklog: a snapshot at fence %d, the last step of partition %d made %d", at, partition, now.fence)
	case overtaken(now, after, at):
		return journal.ErrOvertaken
	}
	more := int64(len(state)) - int64(p.state().snapshot.size)
	if err := l.admit(journal.ToEnd, more); err != nil { // write nothing that would be refused
		return err
	}
	l.bound.Free(more)
	o := &op{add: addSnapshot, p: p, after: after, fence: at}
	if len(state) > inline {
		id, err := l.takeAlone(ctx)
		if err != nil {
			return err
		}
		p.begin(id)
		defer p.ended(id)
		o.parcel.id = id
	}
	var err error
	id := o.parcel.id
	if o.parcel, err = l.wrap(ctx, kindSnapshotPiece, partition, id, state); err != nil {
		return err
	}
	used, err := l.submit(ctx, o)
	if id != 0 && (err == nil && used == 0 || err != nil && !isUnknown(err)) {
		l.discard(kindSnapshotPiece, partition, id)
	}
	if err == nil && used == 0 {
		return journal.ErrOvertaken
	}
	return err
}

// overtaken reports whether a snapshot cannot replace the latest one.
func overtaken(now state, after, at uint64) bool {
	return now.at != after || at <= after && after > 0
}

// begin records that the pieces of a snapshot are being written, until ended. A
// snapshot that completes meanwhile must not delete them. Other pieces that nothing
// refers to were left by a crash.
func (p *partition) begin(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writing == nil {
		p.writing = make(map[uint64]bool)
	}
	p.writing[id] = true
}

func (p *partition) ended(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.writing, id)
}

// addSnapshot sets the result to zero if the latest snapshot is not the expected one.
func addSnapshot(g *group, o *op) {
	p, next := o.p, &o.p.next
	if overtaken(*next, o.after, o.fence) {
		return
	}
	if o.err = g.l.admit(journal.ToEnd, int64(o.parcel.size)-int64(next.snapshot.size)); o.err != nil {
		return
	}
	g.deleteRange(kindSnapshot, p.number, 0, 1) // also further parts
	g.set(kindSnapshot, p.number, 0, varintSize(o.fence)+o.parcel.packed(), func(b []byte) []byte {
		return o.parcel.append(binary.AppendUvarint(b, o.fence))
	})
	// Pieces older than everything that is being written belong to no snapshot. The replaced
	// snapshot is not older if its number is in between.
	oldest := g.l.number.Load() + 1
	if o.parcel.id != 0 {
		oldest = o.parcel.id
	}
	p.mu.Lock()
	for id := range p.writing {
		oldest = min(oldest, id)
	}
	p.mu.Unlock()
	g.deleteRange(kindSnapshotPiece, p.number, 0, oldest)
	if was := next.snapshot.id; was >= oldest && was != o.parcel.id {
		g.deleteRange(kindSnapshotPiece, p.number, was, was+1)
	}
	next.at, next.snapshot = o.fence, parcel{id: o.parcel.id, size: o.parcel.size}
	g.l.counters.snapshots.Add(1)
	o.result = 1
}
