package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// Commit makes a step durable. It writes the pieces of a step that does not fit into one message
// first. They do not count until the message that lists them is kept.
func (l *Log) Commit(ctx context.Context, partition int, fence uint64, step []byte) (uint64, error) {
	if err := l.ready(ctx, partition); err != nil {
		return 0, err
	}
	if err := l.admit(ctx, &l.steps, journal.PurposeOf(ctx, journal.ToGoOn), len(step)); err != nil {
		return 0, err
	}
	p, err := l.wrap(ctx, kindStepPiece, partition, fence, step, l.maxInline)
	if err != nil {
		return 0, err
	}
	next, err := l.onlyIf(ctx, l.subject(kindStep, partition), fence, p.pack(), nil)
	switch {
	case err == nil:
		l.counters.steps.Add(1)
		raise(&l.appenders[partition].fence, next)
	case errors.Is(err, journal.ErrFenced):
		l.counters.fenced.Add(1)
	case errors.Is(err, journal.ErrUnknown):
		l.counters.unknown.Add(1)
	}
	return next, err
}

// onlyIf adds a message if the last one of its subject has the sequence last, and returns the new
// sequence. It retries as long as it is certain that the message was not kept. When that is not
// certain it never sends the message again, because the second attempt would be refused because of
// the first.
func (l *Log) onlyIf(ctx context.Context, subject string, last uint64, data []byte, header nats.Header) (uint64, error) {
	if header == nil {
		header = nats.Header{}
	}
	header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(last, 10))
	for try := 0; ; try++ {
		a, err := l.publish(ctx, subject, data, header)
		switch {
		case err == nil:
			return a.Sequence, nil
		case errors.Is(err, errNoAnswer):
			return 0, fmt.Errorf("%w: %w", journal.ErrUnknown, err)
		case !errors.Is(err, errNotSent):
			return 0, err
		case l.ctx.Err() != nil:
			return 0, context.Cause(l.ctx)
		}
		l.counters.retries.Add(1)
		if err := l.pause(ctx, try); err != nil {
			if l.ctx.Err() != nil {
				return 0, err
			}
			return 0, unreachable(ctx, "commit to "+subject, errNotSent)
		}
	}
}
