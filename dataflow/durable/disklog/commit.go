package disklog

import (
	"context"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

const (
	// inline is the largest size of a step or a snapshot that is stored without pieces.
	inline = 256 << 10
	// pieceSize is the size of a piece, and pieceBatch the number of pieces
	// that are written at once.
	pieceSize  = partSize
	pieceBatch = 8
	// maxParcel is the largest size of a step or a snapshot.
	maxParcel = 1 << 30
)

// Commit makes a step durable. It writes the pieces of a large step first. They do not count until
// the step that refers to them is written.
func (l *Log) Commit(ctx context.Context, partition int, fence uint64, step []byte) (uint64, error) {
	if err := l.ready(ctx, partition); err != nil {
		return 0, err
	}
	p := &l.partitions[partition]
	if have := p.state().fence; have != fence && len(step) > inline {
		// A group in progress may change the fence.
		if err := l.settle(ctx); err != nil {
			return 0, err
		}
		if have = p.state().fence; have != fence {
			l.counters.fenced.Add(1)
			return 0, fenced(have, fence)
		}
	}
	if len(step) > inline { // write nothing that would be refused
		if err := l.admit(journal.PurposeOf(ctx, journal.ToGoOn), int64(len(step))+overhead); err != nil {
			return 0, err
		}
		l.bound.Free(int64(len(step)) + overhead)
	}
	kept, err := l.wrap(ctx, kindStepPiece, partition, 0, step)
	if err != nil {
		return 0, err
	}
	next, err := l.submit(ctx, &op{add: addStep, p: p, fence: fence, parcel: kept, purpose: journal.PurposeOf(ctx, journal.ToGoOn)})
	if err != nil && kept.id != 0 && !isUnknown(err) {
		l.discard(kindStepPiece, partition, kept.id)
	}
	return next, err
}

func fenced(have, fence uint64) error {
	return fmt.Errorf("%w: it has %d, not %d", journal.ErrFenced, have, fence)
}

func addStep(g *group, o *op) {
	l, next := g.l, &o.p.next
	if o.fence != next.fence {
		l.counters.fenced.Add(1)
		o.err = fenced(next.fence, o.fence)
		return
	}
	if o.err = l.admit(o.purpose, int64(o.parcel.size)+overhead); o.err != nil {
		return
	}
	o.p.stepped, o.p.awaited, o.p.late = true, false, false
	next.fence = l.take()
	next.steps = tally{o.fence, next.steps.count + 1, next.steps.bytes + o.parcel.size}
	if next.steps.count == 1 {
		next.stepGone.position = next.fence
	}
	g.set(kindStep, o.p.number, next.fence, next.steps.size()+o.parcel.packed(), func(b []byte) []byte {
		return o.parcel.append(next.steps.append(b))
	})
	l.counters.steps.Add(1)
	o.result = next.fence
}

// wrap returns the stored form of a step or a snapshot. If it is large, wrap writes its pieces
// first. Id is the number of the pieces, or zero to take a new one.
func (l *Log) wrap(ctx context.Context, k kind, partition int, id uint64, data []byte) (parcel, error) {
	kept := parcel{data: data, size: uint64(len(data))}
	if len(data) <= inline {
		return kept, nil
	}
	if len(data) > maxParcel {
		return parcel{}, fmt.Errorf("%w: %d bytes, at most %d are kept in pieces", journal.ErrTooLarge, len(data), maxParcel)
	}
	if id == 0 {
		var err error
		if id, err = l.takeAlone(ctx); err != nil {
			return parcel{}, err
		}
	}
	for i := 0; i*pieceSize < len(data); i += pieceBatch {
		err := context.Cause(ctx)
		if err == nil {
			err = l.room.check()
		}
		if err == nil {
			err = l.pieces(k, partition, id, i, data[i*pieceSize:min((i+pieceBatch)*pieceSize, len(data))])
		}
		if err != nil {
			l.discard(k, partition, id)
			return parcel{}, err
		}
	}
	return parcel{id: id, size: uint64(len(data)), piece: pieceSize}, nil
}

// pieces writes some pieces without a sync. The sync of the step or the snapshot comes later in the
// same log and covers them.
func (l *Log) pieces(k kind, partition int, id uint64, first int, data []byte) error {
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	batch := l.db.NewBatchWithSize(len(data) + 1024)
	if k == kindStatePiece {
		set(batch, key(kindPieceSize, partition, id), varintSize(uint64(len(data))), func(b []byte) []byte {
			return binary.AppendUvarint(b, uint64(len(data)))
		})
	}
	i := first
	for piece := range slices.Chunk(data, pieceSize) {
		setPart(batch, pieceKey(k, partition, id, i), len(piece), func(b []byte) []byte { return append(b, piece...) })
		i++
	}
	return l.apply(batch, pebble.NoSync)
}

// discard deletes pieces that nothing refers to. If it fails, a later purge deletes them.
func (l *Log) discard(k kind, partition int, id uint64) {
	if l.enter() != nil {
		return
	}
	defer l.leave()
	g := &group{l: l, batch: l.db.NewBatch()}
	g.deleteRange(k, partition, id, id+1)
	if err := l.apply(g.batch, pebble.NoSync); err != nil {
		l.logger.Debug("pieces that nothing names are left", "partition", partition, "number", id, "error", err)
	}
}
