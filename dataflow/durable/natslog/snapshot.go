package natslog

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// smallSnapshot is what is kept without pieces. It is little, because whoever wants to
// know which snapshot is the latest reads that message.
const smallSnapshot = 64 << 10

// SaveSnapshot keeps a snapshot in place of the one before. Its pieces come first, then
// the message that lists them, which is kept only if nobody has saved another snapshot
// since the pieces were begun: so a list never names pieces that somebody has purged.
func (l *Log) SaveSnapshot(ctx context.Context, partition int, at uint64, state []byte) error {
	if err := l.ready(ctx, partition); err != nil {
		return err
	}
	tail, err := l.last(ctx, l.st(), l.subject(kindStep, partition))
	if err != nil && !errors.Is(err, errMissing) {
		return err
	}
	if at > tail.sequence {
		return fmt.Errorf("natslog: a snapshot at fence %d, the last step made %d", at, tail.sequence)
	}
	for {
		have, sequence, err := l.snapshot(ctx, partition)
		if err != nil && !errors.Is(err, errMissing) {
			return err
		}
		if err == nil && have.number > at {
			return nil // of somebody who is ahead of us
		}
		p, err := l.wrap(ctx, kindSnapshotPiece, partition, at, state, min(l.maxInline, smallSnapshot))
		if err != nil {
			return err
		}
		rollup := nats.Header{jetstream.MsgRollup: []string{jetstream.MsgRollupSubject}}
		saved, err := l.onlyIf(ctx, l.subject(kindSnapshot, partition), sequence, p.pack(), rollup)
		if errors.Is(err, journal.ErrFenced) || errors.Is(err, journal.ErrUnknown) && l.ready(ctx, partition) == nil {
			continue // to look again: two snapshots of one step are as good as each other
		}
		if err != nil {
			return err
		}
		l.counters.snapshots.Add(1)
		return l.purge(ctx, l.st(), l.subject(kindSnapshotPiece, partition), p.first(saved))
	}
}
