package natslog

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Read returns a reader of the input after a position.
func (l *Log) Read(ctx context.Context, partition int, after uint64) (journal.Reader, error) {
	if err := l.ready(ctx, partition); err != nil {
		return nil, err
	}
	purged, _, err := l.purged(ctx, partition)
	if err != nil {
		return nil, err
	}
	if after < purged {
		return nil, tooOld(after, purged)
	}
	f, err := l.follow(ctx, l.in(), l.subject(kindRecords, partition), after)
	if err != nil {
		return nil, err
	}
	return &reader{l: l, partition: partition, last: after, f: f}, nil
}

func tooOld(after, purged uint64) error {
	return fmt.Errorf("%w: up to position %d, wanted after %d", journal.ErrPurged, purged, after)
}

type reader struct {
	l         *Log
	partition int
	f         *follower

	mu   sync.Mutex // held during Next, so that two callers do not get the same messages
	last uint64
}

func (r *reader) Next(ctx context.Context, max int) ([]journal.Message, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	got, err := r.f.look(ctx, r.last, max)
	gone := errors.Is(err, errGone)
	if err != nil && !gone {
		return nil, err
	}
	if gone || got[len(got)-1].sequence-r.last != uint64(len(got)) {
		// The messages in between belong to other partitions, or they were purged before they could
		// be delivered. Only the mark of the purge tells which.
		purged, _, err := r.l.purged(ctx, r.partition)
		if err != nil {
			return nil, err
		}
		if r.last < purged {
			return nil, tooOld(r.last, purged)
		}
		if gone {
			return nil, r.l.recordsLost(r.partition, r.last, r.f.expect)
		}
	}
	out := make([]journal.Message, len(got))
	last := r.last
	for i, m := range got {
		if err := r.l.complete(r.partition, last, &m); err != nil {
			return nil, err
		}
		records, err := unpack(m.data)
		if err != nil {
			return nil, r.l.damaged("the message at position %d of the stream %s: %v", m.sequence, r.l.in(), err)
		}
		last = m.sequence
		out[i] = journal.Message{Position: last, Records: records}
	}
	r.last = last
	return out, nil
}

func (r *reader) Last(ctx context.Context) (uint64, error) {
	if err := r.l.ready(ctx, r.partition); err != nil {
		return 0, err
	}
	m, err := r.l.last(ctx, r.l.in(), r.l.subject(kindRecords, r.partition))
	if errors.Is(err, errMissing) {
		return 0, nil
	}
	return m.sequence, err
}

// Close closes the reader. A waiting Next returns journal.ErrClosed.
func (r *reader) Close() { r.f.close() }

// Steps returns a reader of committed steps after a fence. It asks the leader for the first one: the
// replica that delivers them may still have steps that were purged.
func (l *Log) Steps(ctx context.Context, partition int, after uint64) (journal.StepReader, error) {
	if err := l.ready(ctx, partition); err != nil {
		return nil, err
	}
	start := after
	first, err := l.first(ctx, l.st(), l.subject(kindStep, partition), after)
	switch {
	case err == nil:
		start = first.sequence - 1
	case !errors.Is(err, errMissing):
		return nil, err
	}
	f, err := l.follow(ctx, l.st(), l.subject(kindStep, partition), start)
	if err != nil {
		return nil, err
	}
	return &stepReader{l: l, partition: partition, last: after, f: f}, nil
}

type stepReader struct {
	l         *Log
	partition int
	f         *follower

	mu   sync.Mutex // as in reader
	last uint64
}

func (r *stepReader) Next(ctx context.Context) (journal.Step, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	got, err := r.f.look(ctx, r.last, 0)
	if errors.Is(err, errGone) {
		return journal.Step{}, r.l.stepsLost(r.partition, fmt.Errorf("none can be read after step %d, the last one is %d", r.last, r.f.expect))
	}
	if err != nil {
		return journal.Step{}, err
	}
	p, err := unpackParcel(got[0].data)
	if err != nil {
		return journal.Step{}, err
	}
	if r.last != 0 && p.number != r.last {
		return journal.Step{}, fmt.Errorf("%w: the step after fence %d", journal.ErrPurged, r.last)
	}
	var data []byte
	missing := 0
	err = r.l.persist(ctx, "read a step", func(attempt context.Context) error {
		data, err = r.l.unwrap(ctx, within(attempt), p)
		if errors.Is(err, errMissing) {
			// The leader has answered, so the pieces were purged, unless it has
			// only just been elected.
			if missing++; missing > 10 {
				return final{fmt.Errorf("%w: pieces of the step after fence %d", journal.ErrPurged, r.last)}
			}
		}
		if errors.Is(err, journal.ErrDamaged) {
			return final{err}
		}
		return err
	})
	if err != nil {
		return journal.Step{}, err
	}
	r.last = got[0].sequence
	return journal.Step{Fence: r.last, Data: data}, nil
}

// Close closes the reader. A waiting Next returns journal.ErrClosed.
func (r *stepReader) Close() { r.f.close() }
