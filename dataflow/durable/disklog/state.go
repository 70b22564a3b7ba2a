package disklog

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// SavePiece writes a piece of a state without a sync. The sync of the snapshot that refers to it
// comes later in the same log and covers it.
func (l *Log) SavePiece(ctx context.Context, partition int, piece []byte) (uint64, error) {
	if err := l.ready(ctx, partition); err != nil {
		return 0, err
	}
	if len(piece) > journal.MaxPiece {
		return 0, fmt.Errorf("%w: a piece of %d bytes, at most %d are taken", journal.ErrTooLarge, len(piece), journal.MaxPiece)
	}
	size := int64(len(piece)) + overhead
	if err := l.admit(journal.ToSave, size); err != nil {
		return 0, err
	}
	number, err := l.takeAlone(ctx)
	if err == nil {
		err = l.room.check()
	}
	if err == nil {
		err = l.pieces(kindStatePiece, partition, number, 0, piece)
	}
	if err != nil {
		l.bound.Free(size)
		return 0, err
	}
	p := &l.partitions[partition]
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pieces, p.pieceBytes = append(p.pieces, keptPiece{number, size}), p.pieceBytes+size
	return number, nil
}

// Pieces returns pieces of a state by number.
func (l *Log) Pieces(ctx context.Context, partition int, first, last uint64) (all []journal.Piece, err error) {
	if err := l.ready(ctx, partition); err != nil {
		return nil, err
	}
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.leave()
	it, err := l.db.NewIter(between(kindStatePiece, partition, first, last))
	if err != nil {
		return nil, err
	}
	defer func() {
		if closed := it.Close(); err == nil && closed != nil {
			err = l.unreadable(partition, "pieces of its state", closed)
		}
	}()
	for ok := it.First(); ok; ok = it.Next() {
		number, index := numberOf(it.Key()), pieceIndexOf(it.Key())
		body, err := partAt(it)
		n := len(all)
		switch {
		case err != nil:
			return nil, l.unreadable(partition, fmt.Sprintf("piece %d of its state", number), err)
		case index == 0:
			all = append(all, journal.Piece{Number: number, Data: append([]byte(nil), body...)})
		case n > 0 && all[n-1].Number == number && len(all[n-1].Data) == index*pieceSize:
			all[n-1].Data = append(all[n-1].Data, body...)
		default:
			return nil, l.unreadable(partition, fmt.Sprintf("piece %d of its state", number), errShort)
		}
	}
	return all, nil
}

// PurgePieces deletes pieces of a state. A crash may bring some back; a later purge deletes them.
func (l *Log) PurgePieces(ctx context.Context, partition int, before uint64) error {
	if err := l.ready(ctx, partition); err != nil {
		return err
	}
	if err := l.enter(); err != nil {
		return err
	}
	defer l.leave()
	g := &group{l: l, batch: l.db.NewBatch()}
	g.deleteRange(kindStatePiece, partition, 0, before)
	g.deleteRange(kindPieceSize, partition, 0, before)
	if err := l.apply(g.batch, pebble.NoSync); err != nil {
		return err
	}
	l.partitions[partition].forget(before)
	return nil
}
