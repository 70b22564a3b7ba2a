package natslog

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// smallSnapshot is the largest snapshot that is kept without pieces. It is small because everybody
// who wants to know which snapshot is the latest reads that message.
const smallSnapshot = 64 << 10

// SaveSnapshot replaces the latest snapshot. It writes the pieces first, then the message that
// lists them. That message is kept only if nobody has saved another snapshot since the pieces were
// started, so a list never refers to pieces that another owner has purged.
func (l *Log) SaveSnapshot(ctx context.Context, partition int, after, at uint64, state []byte) error {
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
	var sent []byte // it is not known whether this was saved
	for {
		have, err := l.last(ctx, l.st(), l.subject(kindSnapshot, partition))
		if err != nil && !errors.Is(err, errMissing) {
			return err
		}
		number := uint64(0)
		if err == nil {
			p, err := unpackParcel(have.data)
			if err != nil {
				return err
			}
			if number = p.number; sent != nil && bytes.Equal(have.data, sent) {
				return l.saved(ctx, partition, p, have.sequence)
			}
		}
		if number != after || at <= after && after > 0 {
			return journal.ErrOvertaken
		}
		p, err := l.wrap(ctx, kindSnapshotPiece, partition, at, state, min(l.maxInline, smallSnapshot))
		if err != nil {
			return err
		}
		rollup := nats.Header{jetstream.MsgRollup: []string{jetstream.MsgRollupSubject}}
		packed := p.pack()
		sequence, err := l.onlyIf(ctx, l.subject(kindSnapshot, partition), have.sequence, packed, rollup)
		switch {
		case err == nil:
			return l.saved(ctx, partition, p, sequence)
		case errors.Is(err, journal.ErrUnknown) && l.ready(ctx, partition) == nil:
			sent = packed
		case !errors.Is(err, journal.ErrFenced):
			return err
		}
	}
}

// saved deletes the pieces of the replaced snapshot.
func (l *Log) saved(ctx context.Context, partition int, p parcel, sequence uint64) error {
	l.counters.snapshots.Add(1)
	return l.purge(ctx, l.st(), l.subject(kindSnapshotPiece, partition), p.first(sequence))
}
