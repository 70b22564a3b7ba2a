package kafka

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
)

// Limits of one call of Next, and of a fetch. A fetch is taken from the client as a whole, and then the client makes the next
// one. A fetch has two batches, because on a busy machine it takes longer than the flow needs for one.
const (
	batchRecords = 8192
	batchBytes   = 2 << 20
	fetchBytes   = 2 * batchBytes
)

// A cursor reads one partition through its own client. The client starts a fetch when the previous one was taken, so the cursor
// holds at most two fetches, 8 MiB. That limits memory when the flow is slow, and a slow split does not delay others.
type cursor[K comparable, V any] struct {
	r         *reader[K, V]
	split     connect.Split
	id        [16]byte // of the topic
	partition int32

	client  *kgo.Client
	fetched []*kgo.Record // fetched, but not returned yet
	next    int64         // offset of the next fetch
	given   atomic.Int64  // value of next when Next started to wait
	end     int64         // offset after the last record of the partition
	failed  error         // the error of the fetch, to be returned after the records
	hint    *hint         // nil if there is no group
}

// position returns the position of a record.
func position(r *kgo.Record) dataflow.Position {
	return dataflow.Position{Major: uint64(r.Offset) + 1, Minor: uint64(r.LeaderEpoch + 1)}
}

func (r *reader[K, V]) Open(ctx context.Context, s connect.Split, after dataflow.Position) (connect.Cursor[K, V], error) {
	c := &cursor[K, V]{r: r, split: s}
	var err error
	if c.id, c.partition, err = parseSplit(s.ID); err != nil {
		return nil, err
	}
	from, err := c.begin(ctx, after)
	if err != nil {
		return nil, c.fail(err)
	}
	if c.failed != nil {
		return c, nil
	}
	c.client, err = kgo.NewClient(append(options(r.topic.Seeds, append([]kgo.Opt{
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.FetchMaxPartitionBytes(fetchBytes),
	}, r.topic.Client...)),
		// Control records are not returned, but they move the end of what was read.
		kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{r.topic.Name: {c.partition: from}}),
	)...)
	if err != nil {
		return nil, c.fail(err)
	}
	if r.topic.Group != "" {
		c.hint = startHint(r.admin, r.topic.Group, r.topic.Name, c.partition)
	}
	return c, nil
}

// begin returns where to start reading. If another topic has the name now, the split has ended.
func (c *cursor[K, V]) begin(ctx context.Context, after dataflow.Position) (from kgo.Offset, err error) {
	topic := &c.r.topic
	d, err := c.r.look(ctx)
	if err != nil {
		return from, err
	}
	if d.ID != c.id {
		c.failed = io.EOF
		return from, nil
	}
	first, err := c.lookup(c.r.admin.ListStartOffsets(ctx, topic.Name))
	if err != nil {
		return from, err
	}
	c.next = first
	switch {
	case after != (dataflow.Position{}):
		if c.next = int64(after.Major); first > c.next {
			return from, gone(c.next, first)
		}
		epoch := int32(after.Minor) - 1
		return kgo.NewOffset().At(c.next).WithEpoch(epoch), c.compare(ctx, epoch)
	case !topic.From.IsZero():
		since, err := c.lookup(c.r.admin.ListOffsetsAfterMilli(ctx, topic.From.UnixMilli(), topic.Name))
		if err != nil {
			return from, err
		}
		c.next = max(since, first)
	}
	return kgo.NewOffset().At(c.next), nil
}

// compare checks that the partition still has the records before next that it had when the leader of that epoch wrote the last
// of them. From then on the client does the same whenever the leader changes.
func (c *cursor[K, V]) compare(ctx context.Context, epoch int32) error {
	if epoch < 0 {
		return nil
	}
	var asked kadm.OffsetForLeaderEpochRequest
	asked.Add(c.r.topic.Name, c.partition, epoch)
	ends, err := c.r.admin.OffsetForLeaderEpoch(ctx, asked)
	if err != nil {
		return err
	}
	end, ok := ends[c.r.topic.Name][c.partition]
	if !ok {
		return kerr.UnknownTopicOrPartition
	}
	if end.Err == nil && end.EndOffset >= 0 && end.EndOffset < c.next {
		return other(end.EndOffset, c.next, epoch)
	}
	return end.Err
}

// other returns the error for records that are not those that were read.
func other(from, to int64, epoch int32) error {
	return fmt.Errorf("the records with offsets %d to %d, of epoch %d, are gone, and others may be in their place: %w", from, to-1, epoch, connect.ErrGap)
}

// lookup returns the offset of the partition from those of a topic.
func (c *cursor[K, V]) lookup(listed kadm.ListedOffsets, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	o, ok := listed.Lookup(c.r.topic.Name, c.partition)
	if !ok {
		return 0, kerr.UnknownTopicOrPartition
	}
	return o.Offset, o.Err
}

// gone returns the error for missing records from one offset to before another.
func gone(from, to int64) error {
	return fmt.Errorf("the records with offsets %d to %d are gone: %w", from, to-1, connect.ErrGap)
}

func (c *cursor[K, V]) Next(ctx context.Context, b *connect.Batch[K, V]) error {
	if len(c.fetched) == 0 {
		if err := c.failed; err != nil {
			return err
		}
		if err := c.fetch(ctx); err != nil {
			return err
		}
	}
	size := 0
	for i, r := range c.fetched {
		if i == batchRecords || size > batchBytes {
			c.fetched = c.fetched[i:]
			b.Behind = c.behind(b)
			return nil
		}
		size += len(r.Key) + len(r.Value)
		if r.Attrs.IsControl() {
			b.End, b.EndTime = position(r), r.Timestamp
			continue
		}
		k, v, err := connect.Decode(c.r.topic.Decode, r)
		switch {
		case err == nil:
			b.Add(k, v, position(r))
		case connect.Passes(err):
			c.fetched = c.fetched[i:]
			if i > 0 {
				return nil // the next call starts with the record and returns the error
			}
			return c.fail(err)
		default:
			b.AddBad(c.split, position(r), r.Value, err)
		}
		b.EndTime = r.Timestamp
	}
	c.fetched = nil
	b.Behind = c.behind(b)
	return nil
}

func (c *cursor[K, V]) behind(b *connect.Batch[K, V]) int64 { return max(0, c.end-int64(b.End.Major)) }

// fetch waits for records. If an error came with records, it is returned after them.
func (c *cursor[K, V]) fetch(ctx context.Context) error {
	c.given.Store(c.next)
	polled := c.client.PollFetches(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, f := range polled {
		for _, t := range f.Topics {
			for _, p := range t.Partitions {
				if c.failed == nil {
					c.failed = c.take(ctx, t.TopicID, p)
				}
			}
		}
	}
	if len(c.fetched) == 0 {
		return c.failed
	}
	return nil
}

// take stores the records of a fetch and interprets its error.
func (c *cursor[K, V]) take(ctx context.Context, topic [16]byte, p kgo.FetchPartition) error {
	if n := len(p.Records); n > 0 {
		switch topic {
		case c.id:
		case [16]byte{}:
			return fmt.Errorf("kafka: %s: fetches do not name topics by an id: Kafka 3.1 or later is needed", c.split)
		default:
			return io.EOF // the topic was created again before the client had seen the topic of the split
		}
		if c.fetched == nil {
			c.fetched = p.Records
		} else {
			c.fetched = append(c.fetched, p.Records...)
		}
		c.next = p.Records[n-1].Offset + 1
	}
	if p.Err != nil {
		return c.refused(ctx, p.Err)
	}
	c.end = p.HighWatermark
	return nil
}

// refused interprets an error of the partition.
func (c *cursor[K, V]) refused(ctx context.Context, err error) error {
	var lost *kgo.ErrDataLoss
	switch {
	case errors.As(err, &lost):
		return c.fail(other(lost.ResetTo, lost.ConsumedTo, lost.ConsumedToEpoch))
	case errors.Is(err, kerr.OffsetOutOfRange):
		return c.fail(c.outOfRange(ctx))
	case errors.Is(err, kerr.UnknownTopicID), errors.Is(err, kerr.UnknownTopicOrPartition):
		if d, err := c.r.look(ctx); err == nil && d.ID != c.id {
			return io.EOF // another topic has the name
		}
	}
	return c.fail(err)
}

// outOfRange returns an error that says which records are missing.
func (c *cursor[K, V]) outOfRange(ctx context.Context) error {
	first, err := c.lookup(c.r.admin.ListStartOffsets(ctx, c.r.topic.Name))
	if err != nil {
		return err
	}
	if first > c.next {
		return connect.Retry(gone(c.next, first)) // Open then returns the gap, from the floor on
	}
	return fmt.Errorf("the partition ends before offset %d, to which it was read, so it has lost records: %w", c.next, connect.ErrGap)
}

// Silent asks the leader of the partition where it ends. If the leader does not answer, it returns an error. Records of an open
// transaction count, since the transaction may be committed.
func (c *cursor[K, V]) Silent(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, silentLimit)
	defer cancel()
	end, err := c.lookup(c.r.admin.ListEndOffsets(ctx, c.r.topic.Name))
	return err == nil && end <= c.given.Load(), err
}

// silentLimit is how long to wait for the leader's answer.
const silentLimit = 5 * time.Second

// Confirm writes the position to the group.
func (c *cursor[K, V]) Confirm(_ context.Context, p dataflow.Position) error {
	if c.hint != nil {
		c.hint.tell(int64(p.Major))
	}
	return nil
}

func (c *cursor[K, V]) Close() error {
	if c.client != nil {
		c.client.Close()
	}
	if c.hint != nil {
		c.hint.close()
		c.hint = nil
	}
	return nil
}

func (c *cursor[K, V]) fail(err error) error {
	return failure(fmt.Sprintf("kafka: %s", c.split), err)
}
