package disklog

import (
	"context"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// A purge says what to delete: records up to the last message of it, and steps before the first one
// that stays. Zeros mean nothing.
type purge struct {
	records total
	steps   total
	pieces  uint64 // pieces of steps before this number
}

// Purge deletes records up to a position and steps before a fence, but never the last step. It also
// works while the disk is full.
func (l *Log) Purge(ctx context.Context, partition int, in, at uint64) error {
	if err := l.ready(ctx, partition); err != nil {
		return err
	}
	p := &l.partitions[partition]
	o := &op{add: addPurge, p: p}
	if err := l.enter(); err != nil {
		return err
	}
	err := l.covered(p, min(in, p.state().end), min(at, p.state().fence), &o.purge)
	l.leave()
	if err != nil || o.purge == (purge{}) {
		return err
	}
	if _, err = l.submit(ctx, o); err != nil {
		return err
	}
	p.purgeFiles(o.purge.records.position)
	return nil
}

// covered finds the last message to delete and the first step to keep.
func (l *Log) covered(p *partition, in, at uint64, what *purge) error {
	now := p.state()
	if in > now.purged.position {
		if err := l.outermost(between(kindRecords, p.number, 0, in), (*pebble.Iterator).Last, func(n uint64, d *decoder) {
			t := d.tally()
			what.records = total{n, t.count, t.bytes}
		}); err != nil {
			return l.unreadable(p.number, "the last records to purge", err)
		}
	}
	if at > now.stepGone.position {
		if err := l.outermost(between(kindStep, p.number, at, ^uint64(0)), (*pebble.Iterator).First, func(n uint64, d *decoder) {
			t, kept := d.tally(), d.parcel()
			what.steps, what.pieces = beforeStep(n, t, kept), n
			if kept.id != 0 {
				what.pieces = kept.id
			}
		}); err != nil {
			return l.unreadable(p.number, "the first step after those to purge", err)
		}
	}
	return nil
}

func addPurge(g *group, o *op) {
	next, n := &o.p.next, o.p.number
	if r := o.purge.records; r.position > next.purged.position {
		g.deleteRange(kindRecords, n, 0, r.position+1)
		g.deleteRange(kindFile, n, 0, r.position+1)
		g.set(kindPurged, n, 0, varintSize(r.position)+varintSize(r.count)+varintSize(r.bytes), func(b []byte) []byte {
			b = binary.AppendUvarint(b, r.position)
			b = binary.AppendUvarint(b, r.count)
			return binary.AppendUvarint(b, r.bytes)
		})
		g.l.bound.Free(sizeBetween(next.purged, r))
		next.purged = r
	}
	if s := o.purge.steps; s.position > next.stepGone.position {
		g.deleteRange(kindStep, n, 0, s.position)
		g.deleteRange(kindStepPiece, n, 0, min(o.purge.pieces, s.position))
		g.l.bound.Free(sizeBetween(next.stepGone, s))
		next.stepGone = s
	}
}

// Usage returns the size of the history of a partition. Its bytes are those that were given to the
// log and are kept. The files may be smaller, since tables are compressed, or larger for a while
// after a purge.
func (l *Log) Usage(ctx context.Context, partition int) (journal.Usage, error) {
	if err := l.ready(ctx, partition); err != nil {
		return journal.Usage{}, err
	}
	p := &l.partitions[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	return journal.Usage{
		Records: p.now.records.count - p.now.purged.count,
		Steps:   p.now.steps.count - p.now.stepGone.count,
		Bytes:   uint64(p.now.kept() + p.pieceBytes),
	}, nil
}
