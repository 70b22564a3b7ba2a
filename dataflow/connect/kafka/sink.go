package kafka

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow/connect"
)

// A Sink writes a topic in transactions. It is a [connect.Sink]: what is read of committed transactions has each element once.
//
// The number of a lane is the offset of partition 0 of the topic in the group millrace.<flow>.<output>.<partition>. Deleting the group, or
// another topic of that name, loses it, and then the flow does not go on by itself: the error of [connect.Drain] is a
// [connect.ErrGap].
type Sink[T any] struct {
	// Seeds are addresses of brokers. Others are found through them.
	Seeds []string
	// Topic is where records are written that do not say it themselves. It has to be there.
	Topic string

	// Encode returns the record for an element and its number. Its partition is that of its key; a record without a key is in one
	// of the lane, so that lanes keep their order. An error ends the drain, with nothing of the batch written.
	Encode func(number uint64, x T) (*kgo.Record, error)

	// Timeout is how long a transaction may take before the brokers abort it. It is also how long others may have to wait for
	// what is behind it after a process was killed. Zero means a minute.
	Timeout time.Duration

	// Refresh is how often the number of a lane that nothing is written to is written again, so that the brokers do not forget it.
	// It is shorter than their offsets.retention.minutes. Zero means a day.
	Refresh time.Duration

	// Client has further options of the client.
	Client []kgo.Opt
}

// Open aborts the transaction of a writer before, which can commit nothing from then on, and waits until it has ended.
func (s Sink[T]) Open(ctx context.Context, l connect.Lane) (connect.Writer[T, connect.Atomic], uint64, error) {
	w, last, err := s.open(ctx, l)
	if err != nil {
		return nil, 0, failure(fmt.Sprintf("kafka: opening lane %s", l), fenced(err))
	}
	return w, last, nil
}

func (s Sink[T]) open(ctx context.Context, l connect.Lane) (w *writer[T], last uint64, err error) {
	if s.Encode == nil {
		return nil, 0, errors.New("Sink.Encode is nil")
	}
	id := laneID(l)
	timeout, refresh := s.Timeout, s.Refresh
	if timeout == 0 {
		timeout = time.Minute
	}
	if refresh == 0 {
		refresh = 24 * time.Hour
	}
	cl, err := kgo.NewClient(append(options(s.Seeds, append([]kgo.Opt{kgo.RecordPartitioner(byLane(l))}, s.Client...)),
		kgo.DefaultProduceTopic(s.Topic),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(timeout),
	)...)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			cl.Close()
		}
	}()
	n, err := openNumber(s.Seeds, s.Client, s.Topic, id)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	// The new epoch of the producer shuts out the one before.
	if n.producer, n.epoch, err = cl.ProducerID(ctx); err != nil {
		return nil, 0, err
	}
	if last, err = n.read(ctx); err != nil {
		return nil, 0, err
	}
	if err := n.touch(ctx, last); err != nil {
		return nil, 0, err
	}
	return startWriter(s, l, cl, n, last, refresh), last, nil
}

// laneID returns the id of a lane's transactions and group. A dot within a name is written otherwise, so no two lanes have one id.
func laneID(l connect.Lane) string {
	escape := strings.NewReplacer("%", "%25", ".", "%2E").Replace
	return fmt.Sprintf("millrace.%s.%s.%d", escape(l.Flow), escape(l.Output), l.Partition)
}

// fenced marks the errors by which brokers refuse a producer whose id has another epoch by now.
func fenced(err error) error {
	if errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) {
		return fmt.Errorf("%w: %w", connect.ErrFenced, err)
	}
	return err
}

// byLane returns a partitioner that divides keys as Kafka's own clients do. What has no key goes to one partition for the lane.
func byLane(l connect.Lane) kgo.Partitioner {
	keyed := kgo.StickyKeyPartitioner(nil)
	return kgo.BasicConsistentPartitioner(func(topic string) func(*kgo.Record, int) int {
		of := keyed.ForTopic(topic)
		return func(r *kgo.Record, n int) int {
			if r.Key == nil {
				return l.Partition % n
			}
			return of.Partition(r, n)
		}
	})
}
