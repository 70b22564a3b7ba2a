package disklog

import (
	"context"
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2"
)

// Positions, fences and the numbers of pieces come from one counter. The disk holds a number that
// the counter has not reached. It is written rarely, and after a crash the counter continues from
// it. A log that was closed continues with the next number.

// lease is how many numbers one write makes available.
const lease = 1 << 16

func (g *group) counter(to uint64) {
	g.set(kindCounter, 0, 0, 8, func(b []byte) []byte { return binary.BigEndian.AppendUint64(b, to) })
}

// writeCounter makes a value of the counter durable.
func (l *Log) writeCounter(to uint64) error {
	g := &group{l: l, batch: l.db.NewBatch()}
	g.counter(to)
	return l.apply(g.batch, pebble.Sync)
}

// take returns a number. A group makes sure beforehand that enough numbers are available.
func (l *Log) take() uint64 { return l.number.Add(1) }

// takeAlone returns a number outside of a group.
func (l *Log) takeAlone(ctx context.Context) (uint64, error) {
	n := l.take()
	for n > l.ceiling.Load() {
		if _, err := l.submit(ctx, &op{}); err != nil {
			return 0, err
		}
		if err := l.room.check(); err != nil {
			return 0, err
		}
	}
	return n, nil
}
