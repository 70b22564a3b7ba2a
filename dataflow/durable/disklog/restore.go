package disklog

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Restore returns the latest snapshot and the steps after it. If a commit is in progress whose
// caller has given up, its outcome is final when Restore returns.
func (l *Log) Restore(ctx context.Context, partition int) (*journal.History, error) {
	if err := l.ready(ctx, partition); err != nil {
		return nil, err
	}
	if err := l.settle(ctx); err != nil {
		return nil, err
	}
	if err := l.enter(); err != nil {
		return nil, err
	}
	defer l.leave()
	var h *journal.History
	var err error
	for try := 0; try < restores; try++ {
		if h, err = l.restore(&l.partitions[partition]); !errors.As(err, new(errGap)) {
			break
		}
		if err := l.settle(ctx); err != nil {
			return nil, err
		}
	}
	switch {
	case err == nil:
		return h, nil
	case l.failed() != nil:
		return nil, l.failed()
	case errors.Is(err, journal.ErrPurged):
		return nil, err
	}
	return nil, l.unreadable(partition, "its history", err)
}

// restores is how often a history that is inconsistent is read at most: another owner may have
// committed, saved a snapshot and purged while it was read.
const restores = 5

func (l *Log) restore(p *partition) (*journal.History, error) {
	now := p.state()
	from := l.db.NewSnapshot()
	defer from.Close()
	h := &journal.History{Fence: now.fence, End: now.end}
	var err error
	if h.At, h.Snapshot, err = l.snapshot(from, p.number); err != nil {
		return nil, fmt.Errorf("the snapshot: %w", err)
	}
	before := h.At
	err = l.steps(from, p.number, h.At, h.Fence, func(s journal.Step, made uint64) (bool, error) {
		switch {
		case made == before:
		case len(h.Steps) == 0 && s.Fence == now.stepGone.position:
			return false, fmt.Errorf("%w: the first step kept came after fence %d, and the snapshot is at %d", journal.ErrPurged, made, h.At)
		default:
			return false, errGap{before, s.Fence, made}
		}
		before = s.Fence
		h.Steps = append(h.Steps, s)
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	if before != h.Fence {
		return nil, errGap{last: before, to: h.Fence}
	}
	return h, nil
}

// snapshot returns the latest snapshot, or nil if there is none.
func (l *Log) snapshot(from *pebble.Snapshot, partition int) (at uint64, data []byte, err error) {
	it, err := from.NewIter(between(kindSnapshot, partition, 0, 0))
	if err != nil {
		return 0, nil, err
	}
	defer func() {
		if closed := it.Close(); err == nil {
			err = closed
		}
	}()
	if !it.First() {
		return 0, nil, it.Error()
	}
	var kept parcel
	if err := decodeAt(it, func(_ uint64, d *decoder) { at, kept = d.number(), d.parcel() }); err != nil {
		return 0, nil, err
	}
	data, err = l.unwrap(from, kindSnapshotPiece, partition, kept)
	return at, data, err
}
