package natslog

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// SavePiece saves a piece of a state. If the answer is lost, it sends the piece again, so the piece
// may exist twice.
func (l *Log) SavePiece(ctx context.Context, partition int, piece []byte) (uint64, error) {
	if err := l.ready(ctx, partition); err != nil {
		return 0, err
	}
	if len(piece) > journal.MaxPiece {
		return 0, fmt.Errorf("%w: a piece of %d bytes, at most %d are taken", journal.ErrTooLarge, len(piece), journal.MaxPiece)
	}
	if err := l.admit(ctx, &l.steps, journal.ToSave, len(piece)); err != nil {
		return 0, err
	}
	a, err := l.certain(ctx, l.subject(kindStatePiece, partition), append([]byte{version}, piece...), nil, resendFor)
	return a.Sequence, err
}

// Pieces returns pieces of a state by number. On a cluster it asks the leader, because a replica
// may not have all of them yet.
func (l *Log) Pieces(ctx context.Context, partition int, first, last uint64) (all []journal.Piece, err error) {
	if err := l.ready(ctx, partition); err != nil {
		return nil, err
	}
	subject := l.subject(kindStatePiece, partition)
	err = l.persist(ctx, fmt.Sprintf("read the state of partition %d", partition), func(attempt context.Context) error {
		from := first
		if n := len(all); n > 0 {
			from = all[n-1].Number + 1
		}
		run := l.run
		if l.embedded == nil {
			run = l.runLeader
		}
		return run(ctx, within(attempt), l.st(), subject, from, last, func(m stored) (bool, error) {
			if m.sequence > last {
				return false, nil
			}
			if len(m.data) == 0 || m.data[0] != version {
				return false, final{damaged("a piece of a state of an unknown version")}
			}
			all = append(all, journal.Piece{Number: m.sequence, Data: append([]byte(nil), m.data[1:]...)})
			return true, nil
		})
	})
	return all, err
}

// PurgePieces deletes pieces of a state.
func (l *Log) PurgePieces(ctx context.Context, partition int, before uint64) error {
	if err := l.ready(ctx, partition); err != nil {
		return err
	}
	return l.purge(ctx, l.st(), l.subject(kindStatePiece, partition), before)
}
