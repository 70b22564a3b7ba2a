package kafka

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// A number stores the number of a lane's last element, as the offset of a group that has no members. It is written in the
// transactions of the lane.
//
// The client has no call for that, because it is made for groups that consume. So the requests are made here, in versions that
// identify topics by their names and leave the epoch of the producer to the client.
type number struct {
	client *kgo.Client
	topic  string
	id     string // of the group and of the transactions

	producer int64
	epoch    int16
}

// unstable is the pause between two attempts while the offset is part of a transaction that is being ended.
const unstable = 5 * time.Millisecond

func openNumber(seeds []string, others []kgo.Opt, topic, id string) (*number, error) {
	cl, err := kgo.NewClient(append(options(seeds, others), kgo.MaxVersions(kversion.V3_6_0()))...)
	return &number{client: cl, topic: topic, id: id}, err
}

func (n *number) close() { n.client.Close() }

// take shuts out the previous producer with a new epoch, and returns the number.
func (n *number) take(ctx context.Context, cl *kgo.Client) (last uint64, err error) {
	if n.producer, n.epoch, err = cl.ProducerID(ctx); err != nil {
		return 0, err
	}
	if last, err = n.read(ctx); err != nil {
		return 0, err
	}
	return last, n.touch(ctx, last)
}

// read returns the number, or zero if there is none. It waits while a transaction with another number is open.
func (n *number) read(ctx context.Context) (uint64, error) {
	for {
		offset, err := n.fetch(ctx)
		switch {
		case err == nil:
			return uint64(max(0, offset)), nil
		case errors.Is(err, kerr.GroupIDNotFound):
			return 0, nil
		case !errors.Is(err, kerr.UnstableOffsetCommit):
			return 0, err
		}
		if err := pause(ctx, unstable); err != nil {
			return 0, err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (n *number) fetch(ctx context.Context) (int64, error) {
	// Versions up to 7 use the first form of the request, later ones the second.
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group, req.RequireStable = n.id, true
	req.Topics = []kmsg.OffsetFetchRequestTopic{{Topic: n.topic, Partitions: []int32{0}}}
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = n.id
	g.Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: n.topic, Partitions: []int32{0}}}
	req.Groups = []kmsg.OffsetFetchRequestGroup{g}
	resp, err := req.RequestWith(ctx, n.client)
	if err != nil {
		return 0, err
	}
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return 0, err
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			return p.Offset, kerr.ErrorForCode(p.ErrorCode)
		}
	}
	for _, g := range resp.Groups {
		if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
			return 0, err
		}
		for _, t := range g.Topics {
			for _, p := range t.Partitions {
				return p.Offset, kerr.ErrorForCode(p.ErrorCode)
			}
		}
	}
	return 0, errors.New("the answer to a fetch of offsets has none")
}

// write makes the number a part of the open transaction, or of a new one.
func (n *number) write(ctx context.Context, last uint64) error {
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = n.id, n.producer, n.epoch, n.id
	err := patient(ctx, func() error {
		resp, err := add.RequestWith(ctx, n.client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return err
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch, req.Generation = n.id, n.id, n.producer, n.epoch, -1
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset, p.LeaderEpoch = 0, int64(last), -1
	req.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: n.topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{p}}}
	return patient(ctx, func() error {
		resp, err := req.RequestWith(ctx, n.client)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			for _, p := range t.Partitions {
				return kerr.ErrorForCode(p.ErrorCode)
			}
		}
		return errors.New("the answer to a commit of offsets has none")
	})
}

// touch writes the number in its own transaction, so that the brokers do not forget it. Only the
// last writer of the lane can do so.
func (n *number) touch(ctx context.Context, last uint64) error {
	if last == 0 {
		return nil // nothing to keep
	}
	if err := n.write(ctx, last); err != nil {
		return err
	}
	end := kmsg.NewPtrEndTxnRequest()
	end.TransactionalID, end.ProducerID, end.ProducerEpoch, end.Commit = n.id, n.producer, n.epoch, true
	return patient(ctx, func() error {
		resp, err := end.RequestWith(ctx, n.client)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
}

// patient repeats a request while the brokers are still ending the previous transaction.
func patient(ctx context.Context, request func() error) error {
	for {
		err := request()
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			return err
		}
		if err := pause(ctx, unstable); err != nil {
			return err
		}
	}
}
