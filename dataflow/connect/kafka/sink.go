package kafka

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

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

	// Timeout is how long a write may take, and opening a lane: after that the lane is opened again. The brokers abort a transaction
	// then, so it is also how long readers may have to wait for what is behind one whose writer was killed, and does not come back.
	// Zero means a minute.
	Timeout time.Duration

	// Refresh is how often the number of a lane that nothing is written to is written again, so that the brokers do not forget it.
	// It is shorter than their offsets.retention.minutes. Zero means a day.
	Refresh time.Duration

	// Client has further options of the client.
	Client []kgo.Opt
}

// Open aborts the transaction of a writer before, which can commit nothing from then on, and waits until it has ended.
func (s Sink[T]) Open(ctx context.Context, l connect.Lane) (connect.Writer[T, connect.Atomic], uint64, error) {
	of := fmt.Sprintf("kafka: opening lane %s", l)
	if s.Encode == nil {
		return nil, 0, fmt.Errorf("%s: Sink.Encode is nil", of)
	}
	s.Timeout, s.Refresh = cmp.Or(s.Timeout, time.Minute), cmp.Or(s.Refresh, 24*time.Hour)
	ctx, cancel := context.WithTimeout(ctx, s.Timeout)
	defer cancel()
	id := laneID(l)
	cl, err := kgo.NewClient(append(options(s.Seeds, append([]kgo.Opt{kgo.RecordPartitioner(byLane(l))}, s.Client...)),
		kgo.DefaultProduceTopic(s.Topic),
		kgo.TransactionalID(id),
		kgo.TransactionTimeout(s.Timeout),
	)...)
	if err != nil {
		return nil, 0, fmt.Errorf("%s: %w", of, err)
	}
	n, err := openNumber(s.Seeds, s.Client, s.Topic, id)
	if err != nil {
		cl.Close()
		return nil, 0, fmt.Errorf("%s: %w", of, err)
	}
	last, err := n.take(ctx, cl)
	if err != nil {
		cl.Close()
		n.close()
		return nil, 0, failure(of, heals(err))
	}
	return startWriter(s, l, cl, n, last), last, nil
}

// laneID returns the id of a lane's transactions and group. A dot within a name is written otherwise, so no two lanes have one id.
func laneID(l connect.Lane) string {
	escape := strings.NewReplacer("%", "%25", ".", "%2E").Replace
	return fmt.Sprintf("millrace.%s.%s.%d", escape(l.Flow), escape(l.Output), l.Partition)
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
