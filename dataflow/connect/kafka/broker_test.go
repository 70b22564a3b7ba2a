package kafka_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
	"github.com/millrace/millrace/dataflow/connect/kafka/kafkatest"
)

// A broker is a cluster and the test's own client of it.
type broker struct {
	t     testing.TB
	seeds []string
	fake  *kfake.Cluster // nil for a real cluster
	cl    *kgo.Client
	admin *kadm.Client
}

// onBoth runs a test with the broker in this process and with a real one.
func onBoth(t *testing.T, f func(t *testing.T, b *broker)) {
	t.Run("fake", func(t *testing.T) { f(t, fake(t)) })
	t.Run("real", func(t *testing.T) { f(t, real(t)) })
}

// fake starts a broker in this process.
func fake(t testing.TB, opts ...kfake.Opt) *broker {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return dial(t, c.ListenAddrs(), c)
}

// real returns the real broker of this process.
func real(t testing.TB) *broker {
	t.Helper()
	return dial(t, []string{kafkatest.Start(t)}, nil)
}

func dial(t testing.TB, seeds []string, c *kfake.Cluster, opts ...kgo.Opt) *broker {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MetadataMinAge(10 * time.Millisecond), kgo.UnknownTopicRetries(-1)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return &broker{t: t, seeds: seeds, fake: c, cl: cl, admin: kadm.NewClient(cl)}
}

var topics atomic.Int64

// topic creates a topic with a new name and returns the name.
func (b *broker) topic(partitions int32, config map[string]string) string {
	b.t.Helper()
	name := fmt.Sprintf("t%d-%d", os.Getpid(), topics.Add(1))
	b.make(name, partitions, config)
	return name
}

func (b *broker) make(name string, partitions int32, config map[string]string) {
	b.t.Helper()
	values := map[string]*string{}
	for k, v := range config {
		values[k] = &v
	}
	for {
		made, err := b.admin.CreateTopic(b.t.Context(), partitions, 1, values, name)
		if err == nil {
			err = made.Err
		}
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "ALREADY_EXISTS") { // one that is being deleted
			b.t.Fatal(err)
		}
	}
}

// write produces records and waits for them.
func (b *broker) write(topic string, partition int32, values ...string) {
	b.t.Helper()
	var rs []*kgo.Record
	for _, v := range values {
		rs = append(rs, &kgo.Record{Topic: topic, Partition: partition, Value: []byte(v)})
	}
	if err := b.cl.ProduceSync(b.t.Context(), rs...).FirstErr(); err != nil {
		b.t.Fatal(err)
	}
}

// forget deletes the records before an offset.
func (b *broker) forget(topic string, partition int32, before int64) {
	b.t.Helper()
	var to kadm.Offsets
	to.Add(kadm.Offset{Topic: topic, Partition: partition, At: before})
	done, err := b.admin.DeleteRecords(b.t.Context(), to)
	if err == nil {
		err = done.Error()
	}
	if err != nil {
		b.t.Fatal(err)
	}
}

// deleteGroup makes the brokers forget the offsets of a group, as they do when the offsets expire. A group is busy for a moment
// after its last transaction.
func (b *broker) deleteGroup(name string) {
	b.t.Helper()
	b.until(func() bool {
		deleted, err := b.admin.DeleteGroup(b.t.Context(), name)
		if err != nil {
			b.t.Fatal(err)
		}
		if deleted.Err != nil && !kerr.IsRetriable(deleted.Err) && !errors.Is(deleted.Err, kerr.NonEmptyGroup) {
			b.t.Fatal(deleted.Err)
		}
		return deleted.Err == nil
	})
}

// until waits until ok returns true.
func (b *broker) until(ok func() bool) {
	b.t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-b.t.Context().Done():
			b.t.Fatal("the test has ended")
		}
	}
}

// remake deletes a topic and creates it again.
func (b *broker) remake(topic string, partitions int32) {
	b.t.Helper()
	if _, err := b.admin.DeleteTopic(b.t.Context(), topic); err != nil {
		b.t.Fatal(err)
	}
	b.cl.PurgeTopicsFromClient(topic)
	b.make(topic, partitions, nil)
}

// values returns, by partition, the values that a reader of committed transactions reads until the end of a topic.
func (b *broker) values(topic string) map[int32][]string {
	b.t.Helper()
	ends, err := b.admin.ListCommittedOffsets(b.t.Context(), topic)
	if err != nil {
		b.t.Fatal(err)
	}
	from, left := map[int32]kgo.Offset{}, map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		from[o.Partition] = kgo.NewOffset().AtStart()
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.seeds...), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.KeepControlRecords(),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: from}))
	if err != nil {
		b.t.Fatal(err)
	}
	defer cl.Close()
	got := map[int32][]string{}
	for len(left) > 0 {
		fs := cl.PollFetches(b.t.Context())
		if err := fs.Err(); err != nil {
			b.t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				got[r.Partition] = append(got[r.Partition], string(r.Value))
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	return got
}

var errNoText = errors.New("no text")

// text decodes the values of records that are text.
func text(r *kgo.Record) (string, string, error) {
	if strings.HasPrefix(string(r.Value), "\xff") {
		return "", "", errNoText
	}
	return string(r.Key), string(r.Value), nil
}

// reader returns a reader of a topic of text.
func (b *broker) reader(t *testing.T, topic kafka.Topic[string, string]) connect.Reader[string, string] {
	t.Helper()
	topic.Seeds = b.seeds
	if topic.Decode == nil {
		topic.Decode = text
	}
	r, err := topic.Reader()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Close() })
	return r
}

// splits waits until a reader has splits and returns them.
func splits(t *testing.T, r connect.Reader[string, string]) []connect.Split {
	t.Helper()
	for {
		ss, err := r.Splits(t.Context())
		if err == nil && len(ss) > 0 {
			return ss
		}
		if err != nil && !strings.Contains(err.Error(), "UNKNOWN_TOPIC") { // a broker may learn late of a new topic
			t.Fatal(err)
		}
	}
}

func open(t *testing.T, r connect.Reader[string, string], s connect.Split, after dataflow.Position) connect.Cursor[string, string] {
	t.Helper()
	c, err := r.Open(t.Context(), s, after)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// read calls Next until the records together are enough.
func read(t *testing.T, c connect.Cursor[string, string], enough func(all *connect.Batch[string, string]) bool) *connect.Batch[string, string] {
	t.Helper()
	all := &connect.Batch[string, string]{Behind: -1}
	for !enough(all) {
		var b connect.Batch[string, string]
		b.Reset()
		if err := c.Next(t.Context(), &b); err != nil {
			t.Fatalf("after %d records: %v", len(all.Values), err)
		}
		all.Keys, all.Values, all.At, all.Bad = append(all.Keys, b.Keys...), append(all.Values, b.Values...), append(all.At, b.At...), append(all.Bad, b.Bad...)
		all.End, all.EndTime, all.Behind = b.End, b.EndTime, b.Behind
	}
	return all
}

func records(n int) func(*connect.Batch[string, string]) bool {
	return func(all *connect.Batch[string, string]) bool { return len(all.Values)+len(all.Bad) >= n }
}

var errNone = errors.New("all records were read, and there was no error")

// fails calls Next until it returns an error, or has returned the last record.
func fails(ctx context.Context, c connect.Cursor[string, string]) error {
	for {
		var b connect.Batch[string, string]
		b.Reset()
		if err := c.Next(ctx, &b); err != nil {
			return err
		}
		if b.Behind == 0 {
			return errNone
		}
	}
}

func equal(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: got %.300q, want %.300q", what, got, want)
	}
}

func count(from, to int) (texts []string) {
	for i := from; i < to; i++ {
		texts = append(texts, fmt.Sprint(i))
	}
	return texts
}
