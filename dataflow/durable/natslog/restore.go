package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// errBehind says that a history is inconsistent: a replica is behind, or another owner has saved a
// snapshot and purged in the meantime. Reading again helps.
var errBehind = errors.New("steps are missing")

// Restore returns the latest snapshot and the steps after it. The leader says which step is the last.
// The steps before it come from any replica, and the fences in them show whether they are complete.
func (l *Log) Restore(ctx context.Context, partition int) (h *journal.History, err error) {
	if err := l.ready(ctx, partition); err != nil {
		return nil, err
	}
	misses := 0
	err = l.persist(ctx, fmt.Sprintf("restore partition %d", partition), func(attempt context.Context) error {
		if err := l.checkIdentity(attempt); err != nil {
			return err
		}
		// Do not use the short context of an attempt: a long history takes its time.
		h, err = l.restore(ctx, within(attempt), partition, misses >= maxMisses/2)
		switch {
		case errors.Is(err, journal.ErrDamaged), errors.Is(err, journal.ErrPurged):
			return final{err}
		case errors.Is(err, errBehind), errors.Is(err, errMissing):
			if misses++; misses == maxMisses || l.embedded != nil {
				return final{l.stepsLost(partition, err)}
			}
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	l.counters.restores.Add(1)
	raise(&l.appenders[partition].fence, h.Fence)
	return h, nil
}

// maxMisses is how often steps of a cluster may be missing before they count as lost. The second half
// of the attempts asks only the leader, which has everything that was acknowledged. It retries because
// a leader may have been elected just now.
const maxMisses = 16

// restore makes one attempt, in which no message takes longer than within. It reads the steps from some
// replica, or from the leader.
func (l *Log) restore(ctx context.Context, within time.Duration, partition int, leader bool) (*journal.History, error) {
	h := &journal.History{}
	_, known, err := l.lastRecords(ctx, partition) // before reading the steps, to which more may be added
	if err != nil {
		return nil, err
	}
	snapshot, version, err := l.snapshot(ctx, partition)
	switch {
	case errors.Is(err, errMissing):
	case err != nil:
		return nil, err
	default:
		h.At = snapshot.number
		data, err := l.unwrap(ctx, within, snapshot)
		if err != nil {
			return nil, err
		}
		h.Snapshot = append([]byte{}, data...) // not nil, which would mean none
	}
	tail, err := l.last(ctx, l.st(), l.subject(kindStep, partition))
	switch {
	case errors.Is(err, errMissing):
		if h.Snapshot != nil || known > 0 {
			return nil, olderThan(0, max(known, h.At))
		}
		h.End, _, err = l.lastRecords(ctx, partition)
		return h, err
	case err != nil:
		return nil, err
	}
	if h.Fence = tail.sequence; h.Fence < max(known, h.At) {
		return nil, olderThan(h.Fence, max(known, h.At))
	}
	before := h.At
	run := l.run
	if leader {
		run = l.runLeader
	}
	err = run(ctx, within, l.st(), l.subject(kindStep, partition), h.At+1, tail.sequence, func(m stored) (bool, error) {
		p, err := unpackParcel(m.data)
		if err != nil {
			return false, err
		}
		if p.number != before {
			if before == h.At {
				if err := l.purgedSince(ctx, within, partition, h.At, version); err != nil {
					return false, err
				}
			}
			return false, fmt.Errorf("%w: after fence %d comes one after fence %d", errBehind, before, p.number)
		}
		data, err := l.unwrap(ctx, within, p)
		if err != nil {
			return false, err
		}
		h.Steps = append(h.Steps, journal.Step{Fence: m.sequence, Data: data})
		before = m.sequence
		return true, nil
	})
	if err != nil {
		return nil, err
	}
	if before != h.Fence {
		return nil, fmt.Errorf("%w: after fence %d, the last one is %d", errBehind, before, h.Fence)
	}
	h.End, _, err = l.lastRecords(ctx, partition) // after reading the steps, which may have taken records that came in meanwhile
	return h, err
}

// purgedSince asks the leader whether steps after a snapshot were purged although there is no later
// snapshot. In that case it returns journal.ErrPurged, because reading again would not help.
func (l *Log) purgedSince(ctx context.Context, within time.Duration, partition int, at, version uint64) error {
	m, err := l.next(ctx, within, l.st(), l.subject(kindStep, partition), at)
	if err != nil {
		return err
	}
	first, err := unpackParcel(m.data)
	if err != nil || first.number == at {
		return err
	}
	_, latest, err := l.snapshot(ctx, partition)
	if err != nil && !errors.Is(err, errMissing) || latest != version {
		return err
	}
	return fmt.Errorf("%w: the first step kept came after fence %d, and the snapshot is at %d", journal.ErrPurged, first.number, at)
}

// snapshot returns the latest snapshot, or the list of its pieces, and the sequence of its message. It
// returns errMissing if there is none.
func (l *Log) snapshot(ctx context.Context, partition int) (parcel, uint64, error) {
	m, err := l.last(ctx, l.st(), l.subject(kindSnapshot, partition))
	if err != nil {
		return parcel{}, 0, err
	}
	p, err := unpackParcel(m.data)
	return p, m.sequence, err
}
