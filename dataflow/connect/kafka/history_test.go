package kafka_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
)

// TestTransactionsOfOthers checks that aborted records are not read, and that no reader waits at the markers of transactions.
func TestTransactionsOfOthers(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, nil)
		tx := dial(t, b.seeds, nil, kgo.TransactionalID("tx of "+topic))
		var want []string
		for i := range 20 {
			if err := tx.cl.BeginTransaction(); err != nil {
				t.Fatal(err)
			}
			values := count(10*i, 10*i+10)
			tx.write(topic, 0, values...)
			if i%2 == 0 {
				want = append(want, values...)
			}
			if err := tx.cl.EndTransaction(t.Context(), kgo.TransactionEndTry(i%2 == 0)); err != nil {
				t.Fatal(err)
			}
		}
		r := b.reader(t, kafka.Topic[string, string]{Name: topic})
		s := splits(t, r)[0]
		all := read(t, open(t, r, s, dataflow.Position{}), func(all *connect.Batch[string, string]) bool {
			return all.Behind == 0
		})
		equal(t, "committed records", all.Values, want)
		if all.End.Major != 220 {
			t.Errorf("end %v, want 200 records and 20 markers", all.End)
		}
		for i, at := range all.At {
			if n := 22*(i/10) + i%10 + 1; at.Major != uint64(n) {
				t.Fatalf("record %d is at %v, want %d", i, at, n)
			}
		}
		equal(t, "behind an aborted record", read(t, open(t, r, s, dataflow.Position{Major: 15}), records(90)).Values, want[10:])
		c := open(t, r, s, all.End)
		if err := tx.cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		tx.write(topic, 0, "open")
		tx.write(topic, 0, "still open")
		if err := tx.cl.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
			t.Fatal(err)
		}
		equal(t, "a transaction that was open", read(t, c, records(2)).Values, []string{"open", "still open"})
	})
}

// TestCompaction checks that the records that a compaction leaves keep their positions.
func TestCompaction(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, map[string]string{"cleanup.policy": "compact", "segment.ms": "100", "min.cleanable.dirty.ratio": "0.0001", "max.compaction.lag.ms": "100"})
		at := map[uint64]string{}   // the record at a position
		last := map[string]uint64{} // position of the last record of each key
		put := func(i int) {
			k := fmt.Sprint(i % 7)
			if err := b.cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(k), Value: fmt.Append(nil, i)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
			last[k], at[uint64(i+1)] = uint64(i+1), fmt.Sprint(i)
		}
		for i := range 200 {
			put(i)
		}
		r := b.reader(t, kafka.Topic[string, string]{Name: topic})
		s := splits(t, r)[0]
		n := 200
		from := func(after dataflow.Position) *connect.Batch[string, string] {
			all := read(t, open(t, r, s, after), func(all *connect.Batch[string, string]) bool { return all.End.Major == uint64(n) })
			for i, p := range all.At {
				if all.Values[i] != at[p.Major] {
					t.Fatalf("behind %v: position %v has %q, and had %q", after, p, all.Values[i], at[p.Major])
				}
			}
			for k, p := range last {
				if !has(all, k, p) {
					t.Fatalf("behind %v: the last record of key %s, at %d, is gone", after, k, p)
				}
			}
			return all
		}
		for len(from(dataflow.Position{}).Values) >= 100 { // much of it has been removed, and more may be at any time
			if b.fake != nil {
				b.fake.Compact()
			}
			put(n)
			n++
		}
		if b.fake == nil { // its partitions begin with the first record left, and those of brokers do not
			from(dataflow.Position{Major: 50}) // a floor among removed records is no gap
		}
	})
}

func has(all *connect.Batch[string, string], k string, at uint64) bool {
	for i, p := range all.At {
		if p.Major == at && all.Keys[i] == k {
			return true
		}
	}
	return false
}

// truncated makes the cluster answer once that a partition's epochs up to the requested one ended at an offset.
func truncated(c *kfake.Cluster, topic string, end int64) {
	c.ControlKey(int16(kmsg.OffsetForLeaderEpoch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		asked := req.(*kmsg.OffsetForLeaderEpochRequest)
		resp := asked.ResponseKind().(*kmsg.OffsetForLeaderEpochResponse)
		for _, t := range asked.Topics {
			rt := kmsg.NewOffsetForLeaderEpochResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetForLeaderEpochResponseTopicPartition()
				rp.Partition, rp.LeaderEpoch, rp.EndOffset = p.Partition, p.LeaderEpoch, end
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}

// TestOtherHistoryIsAGap checks that the epoch in a position reveals a leader with other records at the offsets that were read,
// also after a restart.
func TestOtherHistoryIsAGap(t *testing.T) {
	b := fake(t, kfake.NumBrokers(2))
	topic := b.topic(1, nil)
	b.write(topic, 0, count(0, 10)...)
	r := b.reader(t, kafka.Topic[string, string]{Name: topic})
	s := splits(t, r)[0]
	all := read(t, open(t, r, s, dataflow.Position{}), records(10))
	if all.End.Minor == 0 {
		t.Fatal("a position has no epoch")
	}
	truncated(b.fake, topic, 6)
	if err := reopen(t, r, all.End); !errors.Is(err, connect.ErrGap) || !strings.Contains(err.Error(), "offsets 6 to 9") {
		t.Errorf("after a restart: %v, want ErrGap for the offsets 6 to 9", err)
	}
	equal(t, "nothing is lost", read(t, open(t, r, s, all.At[4]), records(5)).Values, count(5, 10))

	// The leader moves while the cursor reads.
	quick := b.reader(t, kafka.Topic[string, string]{Name: topic, Client: []kgo.Opt{kgo.MetadataMaxAge(50 * time.Millisecond), kgo.MetadataMinAge(10 * time.Millisecond)}})
	c := open(t, quick, s, dataflow.Position{})
	read(t, c, records(10))
	truncated(b.fake, topic, 8)
	if err := b.fake.MoveTopicPartition(topic, 0, 1-b.fake.LeaderFor(topic, 0)); err != nil {
		t.Fatal(err)
	}
	if err := fails(t.Context(), c); !errors.Is(err, connect.ErrGap) || !strings.Contains(err.Error(), "offsets 8 to 9") {
		t.Errorf("while reading: %v, want ErrGap from offset 8 on", err)
	}
}

// TestLeaderMoves checks that a reader does not notice a leader that moves without losing anything.
func TestLeaderMoves(t *testing.T) {
	b := fake(t, kfake.NumBrokers(3))
	topic := b.topic(1, nil)
	r := b.reader(t, kafka.Topic[string, string]{Name: topic, Client: []kgo.Opt{kgo.MetadataMinAge(10 * time.Millisecond)}})
	c := open(t, r, splits(t, r)[0], dataflow.Position{})
	var end dataflow.Position
	for i := range 12 {
		b.write(topic, 0, fmt.Sprint(i))
		all := read(t, c, records(1))
		equal(t, "value", all.Values, []string{fmt.Sprint(i)})
		if !all.At[0].After(end) {
			t.Fatalf("position %v after %v", all.At[0], end)
		}
		end = all.End
		if err := b.fake.MoveTopicPartition(topic, 0, int32(i%3)); err != nil {
			t.Fatal(err)
		}
	}
	if end.Minor < 3 {
		t.Errorf("the last position is %v, which has not the epoch of the last leader", end)
	}
}
