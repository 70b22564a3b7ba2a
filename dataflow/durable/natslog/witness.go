package natslog

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/millrace/millrace/dataflow/durable/journal"
)

// The two streams of a log can be damaged, or put back from an older copy, one without the
// other, and a server that finds a part of a file unreadable may go on without it. So each
// message of records says what was there before it, and the last one of each partition is
// never purged:
//
//   - headerFence is the last step of its partition that its sender knew to be kept. If there
//     is no such step, steps were lost.
//   - headerAfter is the position of its partition's message before it. If that is
//     gone and was not purged, records were lost. Only an embedded log has it,
//     where nobody else sends.
//
// That records were lost at the end is seen by the steps that took them. Messages of logs
// before these headers have none and are not compared.
const (
	headerFence = "Millrace-Fence"
	headerAfter = "Millrace-After"
)

// numberOf returns what a header says.
func numberOf(h nats.Header, name string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(h.Get(name), 10, 64)
	return n, err == nil
}

// raise makes a number as large as another.
func raise(x *atomic.Uint64, to uint64) {
	for {
		have := x.Load()
		if have >= to || x.CompareAndSwap(have, to) {
			return
		}
	}
}

// certify adds to the headers of a message what is there before it.
func (a *appender) certify(ctx context.Context, header nats.Header) error {
	header.Set(headerFence, strconv.FormatUint(a.fence.Load(), 10))
	if a.log.embedded == nil {
		return nil
	}
	if !a.sure {
		m, err := a.log.last(ctx, a.log.in(), a.log.subject(kindRecords, a.partition))
		if err != nil && !errors.Is(err, errMissing) {
			return err
		}
		a.after, a.sure = m.sequence, true
	}
	header.Set(headerAfter, strconv.FormatUint(a.after, 10))
	return nil
}

// acknowledged notes where a message is. One that is not behind those before it was not
// added to what they were added to: the stream was replaced by another one.
func (a *appender) acknowledged(at uint64) error {
	if at <= a.acked {
		return a.log.damaged("the stream %s has a message of partition %d at position %d, and had one at %d before", a.log.in(), a.partition, at, a.acked)
	}
	a.acked, a.after, a.sure = at, at, true
	return nil
}

// lastRecords returns where what came in for a partition ends, and the last step that was
// kept by then, as far as the last message says.
func (l *Log) lastRecords(ctx context.Context, partition int) (end, fence uint64, err error) {
	m, err := l.last(ctx, l.in(), l.subject(kindRecords, partition))
	switch {
	case err == nil:
		fence, _ = numberOf(m.header, headerFence)
		return m.sequence, fence, nil
	case !errors.Is(err, errMissing):
		return 0, 0, err
	}
	// None ever came, or all were purged as logs before the headers did.
	err = l.persist(ctx, "ask for the state of "+l.in(), func(ctx context.Context) error {
		s, err := l.js.Stream(ctx, l.in())
		if err == nil {
			end = s.CachedInfo().State.LastSeq
		}
		return err
	})
	return end, 0, err
}

// recordsLost is the error of records that are gone or cannot be read after a position.
func (l *Log) recordsLost(partition int, after, to uint64) error {
	return l.damaged("the stream %s had messages of partition %d after position %d, up to %d, and cannot give them", l.in(), partition, after, to)
}

// complete returns an error if messages were lost between a position and this message.
func (l *Log) complete(partition int, after uint64, m *stored) error {
	if before, ok := numberOf(m.header, headerAfter); ok && before > after {
		return l.recordsLost(partition, after, before)
	}
	return nil
}

// stepsLost is the error of steps that must be there and are not.
func (l *Log) stepsLost(partition int, why error) error {
	if errors.Is(why, journal.ErrDamaged) {
		return why
	}
	return l.damaged("the stream %s has not all steps and snapshots of partition %d: %v", l.st(), partition, why)
}

// olderThan says that the last step is older than one that a message of records knew.
func olderThan(fence, known uint64) error {
	return fmt.Errorf("%w: the last one is %d, and step %d was kept when the last records came", errBehind, fence, known)
}
