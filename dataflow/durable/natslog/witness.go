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

// One of the two streams of a log can be damaged, or restored from an older copy,
// without the other. And a server that finds a part of a file unreadable may continue
// without it. So each message of records says what existed before it, and the last
// message of each partition is never purged:
//
//   - headerFence is the last step of the partition that the sender knew to be kept. If that step does not exist,
//     steps were lost.
//   - headerAfter is the position of the previous message of the partition. If that message is missing and
//     was not purged, records were lost. Only an embedded log sets it, because there nobody else sends.
//
// The loss of records at the end is noticed from the steps that took them. Messages that were
// written before these headers existed do not have them and are not checked.
const (
	headerFence = "Millrace-Fence"
	headerAfter = "Millrace-After"
)

// numberOf returns the number in a header.
func numberOf(h nats.Header, name string) (n uint64, ok bool) {
	n, err := strconv.ParseUint(h.Get(name), 10, 64)
	return n, err == nil
}

// raise sets x to a number, unless x is larger.
func raise(x *atomic.Uint64, to uint64) {
	for {
		have := x.Load()
		if have >= to || x.CompareAndSwap(have, to) {
			return
		}
	}
}

// certify adds the headers that say what existed before a message.
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

// acknowledged records the position of a message. If the position is not after those of the previous messages,
// the message was added to another stream: somebody has replaced the stream.
func (a *appender) acknowledged(at uint64) error {
	if at <= a.acked {
		return a.log.damaged("the stream %s has a message of partition %d at position %d, and had one at %d before", a.log.in(), a.partition, at, a.acked)
	}
	a.acked, a.after, a.sure = at, at, true
	return nil
}

// lastRecords returns the end of the input of a partition, and the last step that was kept by then,
// according to the last message.
func (l *Log) lastRecords(ctx context.Context, partition int) (end, fence uint64, err error) {
	m, err := l.last(ctx, l.in(), l.subject(kindRecords, partition))
	switch {
	case err == nil:
		fence, _ = numberOf(m.header, headerFence)
		return m.sequence, fence, nil
	case !errors.Is(err, errMissing):
		return 0, 0, err
	}
	// No record ever came, or all were purged by a version that did not keep the last message.
	err = l.persist(ctx, "ask for the state of "+l.in(), func(ctx context.Context) error {
		s, err := l.js.Stream(ctx, l.in())
		if err == nil {
			end = s.CachedInfo().State.LastSeq
		}
		return err
	})
	return end, 0, err
}

// recordsLost returns the error of records after a position that are missing or cannot be read.
func (l *Log) recordsLost(partition int, after, to uint64) error {
	return l.damaged("the stream %s had messages of partition %d after position %d, up to %d, and cannot give them", l.in(), partition, after, to)
}

// complete returns an error if messages between a position and this message were lost.
func (l *Log) complete(partition int, after uint64, m *stored) error {
	if before, ok := numberOf(m.header, headerAfter); ok && before > after {
		return l.recordsLost(partition, after, before)
	}
	return nil
}

// stepsLost returns the error of required steps that are missing.
func (l *Log) stepsLost(partition int, why error) error {
	if errors.Is(why, journal.ErrDamaged) {
		return why
	}
	return l.damaged("the stream %s has not all steps and snapshots of partition %d: %v", l.st(), partition, why)
}

// olderThan returns the error of a last step that is older than a step that a message of records
// refers to.
func olderThan(fence, known uint64) error {
	return fmt.Errorf("%w: the last one is %d, and step %d was kept when the last records came", errBehind, fence, known)
}
