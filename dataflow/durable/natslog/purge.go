package natslog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Purge deletes records and steps. It first stores up to where records are purged. Readers compare
// their position with that, so none skips records without noticing.
func (l *Log) Purge(ctx context.Context, partition int, in, at uint64) error {
	if err := l.ready(ctx, partition); err != nil {
		return err
	}
	if err := l.purgeRecords(ctx, partition, in); err != nil {
		return err
	}
	return l.purgeSteps(ctx, partition, at)
}

func (l *Log) purgeRecords(ctx context.Context, partition int, in uint64) error {
	tail, err := l.last(ctx, l.in(), l.subject(kindRecords, partition))
	if errors.Is(err, errMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	in = min(in, tail.sequence)
	for {
		have, sequence, err := l.purged(ctx, partition)
		if err != nil {
			return err
		}
		if in <= have {
			in = have // a purge that was started there may not have completed
			break
		}
		rollup := nats.Header{jetstream.MsgRollup: []string{jetstream.MsgRollupSubject}}
		_, err = l.onlyIf(ctx, l.subject(kindPurged, partition), sequence, packNumber(in), rollup)
		if err == nil {
			break
		}
		if !errors.Is(err, journal.ErrFenced) && (!errors.Is(err, journal.ErrUnknown) || l.ready(ctx, partition) != nil) {
			return err
		}
	}
	// The last message stays, because its headers say what existed before it.
	return l.purge(ctx, l.in(), l.subject(kindRecords, partition), min(in+1, tail.sequence))
}

// purged returns up to where records are purged, and the sequence of the message that says so. It
// returns zeros if nothing was ever purged.
func (l *Log) purged(ctx context.Context, partition int) (position, sequence uint64, err error) {
	m, err := l.last(ctx, l.st(), l.subject(kindPurged, partition))
	if errors.Is(err, errMissing) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	position, err = unpackNumber(m.data)
	return position, m.sequence, err
}

// purgeSteps deletes steps before the fence at, but never the last step: without it, a stale owner
// with fence zero could commit. Pieces below the first piece of the oldest remaining step belong to
// deleted steps, or to commits that were refused or will be.
func (l *Log) purgeSteps(ctx context.Context, partition int, at uint64) error {
	subject := l.subject(kindStep, partition)
	tail, err := l.last(ctx, l.st(), subject)
	if errors.Is(err, errMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	at = min(at, tail.sequence)
	if at == 0 {
		return nil
	}
	if err := l.purge(ctx, l.st(), subject, at); err != nil {
		return err
	}
	oldest, err := l.first(ctx, l.st(), subject, at-1)
	if err != nil {
		return err
	}
	p, err := unpackParcel(oldest.data)
	if err != nil {
		return err
	}
	return l.purge(ctx, l.st(), l.subject(kindStepPiece, partition), min(p.first(oldest.sequence), at))
}

// purge deletes the messages of a subject before a sequence. It may be repeated.
func (l *Log) purge(ctx context.Context, from, subject string, before uint64) error {
	if before <= 1 {
		return nil // a purge before 0 would delete everything
	}
	return l.persist(ctx, fmt.Sprintf("purge %s", subject), func(ctx context.Context) error {
		s, err := l.js.Stream(ctx, from)
		if err != nil {
			return err
		}
		if err := s.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(before)); err != nil {
			return err
		}
		for _, s := range []*stream{&l.records, &l.steps} {
			s.mu.Lock()
			s.looked = time.Time{} // more room than is known
			s.mu.Unlock()
		}
		return nil
	})
}

// Usage returns the size of the history of a partition. The servers count bytes by stream, so the
// bytes of a partition are estimated from its number of messages.
func (l *Log) Usage(ctx context.Context, partition int) (u journal.Usage, err error) {
	if err := l.ready(ctx, partition); err != nil {
		return journal.Usage{}, err
	}
	err = l.persist(ctx, "ask for the usage", func(ctx context.Context) error {
		u = journal.Usage{}
		for _, name := range []string{l.in(), l.st()} {
			s, err := l.js.Stream(ctx, name)
			if err != nil {
				return err
			}
			info, err := s.Info(ctx, jetstream.WithSubjectFilter(fmt.Sprintf("%s.*.%d", l.opts.Name, partition)))
			if err != nil {
				return err
			}
			mine := uint64(0)
			for _, n := range info.State.Subjects {
				mine += n
			}
			u.Records += info.State.Subjects[l.subject(kindRecords, partition)]
			u.Steps += info.State.Subjects[l.subject(kindStep, partition)]
			if info.State.Msgs > 0 {
				u.Bytes += uint64(float64(info.State.Bytes) * float64(mine) / float64(info.State.Msgs))
			}
		}
		return nil
	})
	return u, err
}
