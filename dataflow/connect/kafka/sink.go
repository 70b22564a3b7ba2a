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

// A Sink writes a topic in transactions. It is a [connect.Sink]: readers of committed transactions see each element once.
//
// The number of a lane is the offset of partition 0 of the topic in the group millrace.<flow>.<output>.<partition>. If the group
// is deleted, or another topic gets that name, the number is lost. Then the flow does not continue by itself: the error of
// [connect.Drain] is a [connect.ErrGap].
type Sink[T any] struct {
	// Seeds are addresses of brokers, through which the others are found.
	Seeds []string
	// Topic is the topic for records that do not name one. It must exist.
	Topic string

	// Encode returns the record for an element and its number. The key of the record determines its partition.
	// Records without a key go to one partition for the lane, so that lanes keep their order. An error ends the
	// drain, with nothing of the batch written.
	Encode func(number uint64, x T) (*kgo.Record, error)

	// Timeout is how long a write, or opening a lane, may take. After that the lane is opened again. The brokers abort a
	// transaction after that time too, so if a writer was killed and does not come back, readers may have to wait that long for
	// records after its transaction. Zero means a minute.
	Timeout time.Duration

	// Refresh is how often the number of an idle lane is written again, so that the brokers do not forget it. It must be shorter
	// than their offsets.retention.minutes. Zero means a day.
	Refresh time.Duration

	// Client contains additional options of the client.
	Client []kgo.Opt
}

// Open aborts the open transaction of the previous writer and waits until it has ended. That
// writer can commit nothing any longer.
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

// laneID returns the ID of a lane's transactions and group. It is different for every lane,
// because dots within names are escaped.
func laneID(l connect.Lane) string {
	escape := strings.NewReplacer("%", "%25", ".", "%2E").Replace
	return fmt.Sprintf("millrace.%s.%s.%d", escape(l.Flow), escape(l.Output), l.Partition)
}

// byLane returns a partitioner that assigns keys as Kafka's own clients do. Records without a
// key go to one partition for the lane.
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
