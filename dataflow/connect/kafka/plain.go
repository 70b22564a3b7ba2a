package kafka

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow/connect"
)

// Headers of a record that a [PlainSink] writes: the lane of its element and its number there, in decimal digits. A reader that
// remembers the greatest number of each lane can skip repeats.
const (
	HeaderLane   = "millrace-lane"
	HeaderNumber = "millrace-number"
)

// A PlainSink writes a topic without transactions. It is a [connect.Sink] that repeats: after a crash, the topic contains twice
// the elements that the history does not know to be written. Its fields are those of [Sink]; Refresh has no effect.
type PlainSink[T any] Sink[T]

// Open shuts out no other writer, and returns zero.
func (s PlainSink[T]) Open(_ context.Context, l connect.Lane) (connect.Writer[T, connect.Repeats], uint64, error) {
	of := fmt.Sprintf("kafka: opening lane %s", l)
	if s.Encode == nil {
		return nil, 0, fmt.Errorf("%s: PlainSink.Encode is nil", of)
	}
	s.Timeout = cmp.Or(s.Timeout, time.Minute)
	cl, err := kgo.NewClient(append(options(s.Seeds, append([]kgo.Opt{kgo.RecordPartitioner(byLane(l))}, s.Client...)),
		kgo.DefaultProduceTopic(s.Topic))...)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", of, err)
	}
	return &plainWriter[T]{s: s, lane: l, name: []byte(l.String()), client: cl}, 0, nil
}

type plainWriter[T any] struct {
	s      PlainSink[T]
	lane   connect.Lane
	name   []byte
	client *kgo.Client
}

func (w *plainWriter[T]) Write(ctx context.Context, first uint64, xs []T) (e connect.Repeats, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.s.Timeout)
	defer cancel()
	records, err := encode(w.s.Encode, first, xs)
	if err == nil {
		for i, r := range records {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: HeaderLane, Value: w.name},
				kgo.RecordHeader{Key: HeaderNumber, Value: strconv.AppendUint(nil, first+uint64(i), 10)})
		}
		err = heals(produce(ctx, w.client, records))
	}
	return e, failure(fmt.Sprintf("kafka: writing lane %s", w.lane), err)
}

func (w *plainWriter[T]) Close() error {
	w.client.Close()
	return nil
}
