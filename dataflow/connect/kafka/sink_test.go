package kafka_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
)

func (b *broker) sink(topic string) kafka.Sink[string] {
	return kafka.Sink[string]{Seeds: b.seeds, Topic: topic, Encode: func(_ uint64, x string) (*kgo.Record, error) {
		if x == "\xff" {
			return nil, errNoText
		}
		return &kgo.Record{Value: []byte(x)}, nil
	}}
}

// begin opens a lane and checks the number of its last element.
func begin(t *testing.T, s connect.Sink[string, connect.Atomic], l connect.Lane, want uint64) connect.Writer[string, connect.Atomic] {
	t.Helper()
	w, last, err := s.Open(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if last != want {
		t.Fatalf("opened at number %d, want %d", last, want)
	}
	return w
}

func put(t *testing.T, w connect.Writer[string, connect.Atomic], first uint64, xs ...string) {
	t.Helper()
	if _, err := w.Write(t.Context(), first, xs); err != nil {
		t.Fatal(err)
	}
}

func TestWriterIsFencedByTheNext(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(3, nil)
		s, l := b.sink(topic), connect.Lane{Flow: topic, Output: "out", Partition: 4}
		first := begin(t, s, l, 0)
		put(t, first, 1, "1", "2")
		second := begin(t, s, l, 2)
		if _, err := first.Write(t.Context(), 3, []string{"of the first"}); !errors.Is(err, connect.ErrFenced) {
			t.Errorf("the first writer: %v, want ErrFenced", err)
		}
		put(t, second, 3, "3")
		if _, err := first.Write(t.Context(), 3, []string{"of the first"}); !errors.Is(err, connect.ErrFenced) {
			t.Errorf("the first writer again: %v, want ErrFenced", err)
		}
		if err := first.Close(); err != nil {
			t.Error(err)
		}
		put(t, second, 4, "4", "5")
		begin(t, s, l, 5)
		equal(t, "what the lane wrote", b.values(topic)[1], count(1, 6)) // partition 4 of 3
	})
}

// TestOpenTransactionOfTheWriterBefore has an earlier writer that died with records and a number in
// an open transaction.
func TestOpenTransactionOfTheWriterBefore(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, nil)
		s, l := b.sink(topic), connect.Lane{Flow: topic, Output: "out"}
		put(t, begin(t, s, l, 0), 1, "1", "2")
		id := "millrace." + topic + ".out.0"
		dead := dial(t, b.seeds, nil, kgo.TransactionalID(id), kgo.MaxVersions(kversion.V3_6_0()))
		if err := dead.cl.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		dead.write(topic, 0, "lost", "as well")
		producer, epoch, err := dead.cl.ProducerID(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = id, producer, epoch, id
		if resp, err := add.RequestWith(t.Context(), dead.cl); err != nil || resp.ErrorCode != 0 {
			t.Fatal(err, resp.ErrorCode)
		}
		commit := kmsg.NewPtrTxnOffsetCommitRequest()
		commit.TransactionalID, commit.Group, commit.ProducerID, commit.ProducerEpoch, commit.Generation = id, id, producer, epoch, -1
		commit.Topics = []kmsg.TxnOffsetCommitRequestTopic{{Topic: topic, Partitions: []kmsg.TxnOffsetCommitRequestTopicPartition{{Offset: 4, LeaderEpoch: -1}}}}
		if resp, err := commit.RequestWith(t.Context(), dead.cl); err != nil || resp.Topics[0].Partitions[0].ErrorCode != 0 {
			t.Fatal(err, resp)
		}
		put(t, begin(t, s, l, 2), 3, "3")
		equal(t, "values", b.values(topic)[0], count(1, 4))
	})
}

// TestNumberThatIsNotStable checks that a sink does not use a number of a transaction that is still
// ending.
func TestNumberThatIsNotStable(t *testing.T) {
	b := fake(t)
	topic := b.topic(1, nil)
	s, l := b.sink(topic), connect.Lane{Flow: topic, Output: "out"}
	put(t, begin(t, s, l, 0), 1, "1", "2")
	var asked atomic.Int64
	b.fake.ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		fetch := req.(*kmsg.OffsetFetchRequest)
		if !fetch.RequireStable || asked.Add(1) > 3 {
			return nil, nil, false
		}
		b.fake.KeepControl()
		resp := fetch.ResponseKind().(*kmsg.OffsetFetchResponse)
		p := kmsg.NewOffsetFetchResponseGroupTopicPartition()
		p.Offset, p.ErrorCode = -1, kerr.UnstableOffsetCommit.Code
		resp.Groups = []kmsg.OffsetFetchResponseGroup{{Group: fetch.Groups[0].Group, Topics: []kmsg.OffsetFetchResponseGroupTopic{
			{Topic: topic, Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{p}},
		}}}
		return resp, nil, true
	})
	put(t, begin(t, s, l, 2), 3, "3")
	if n := asked.Load(); n != 4 {
		t.Errorf("stable offsets were asked for %d times, want 4", n)
	}
}

// TestLaneSurvivesItsIds checks that no two lanes share a transactional id.
func TestLaneSurvivesItsIds(t *testing.T) {
	b := fake(t)
	topic := b.topic(1, nil)
	s := b.sink(topic)
	put(t, begin(t, s, connect.Lane{Flow: "a.b", Output: "c"}, 0), 1, "x")
	put(t, begin(t, s, connect.Lane{Flow: "a", Output: "b.c"}, 0), 1, "y")
	put(t, begin(t, s, connect.Lane{Flow: "a", Output: "b%2Ec"}, 0), 1, "z")
}

func TestWriteThatDoesNotFit(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, nil)
		s, l := b.sink(topic), connect.Lane{Flow: topic, Output: "out"}
		w := begin(t, s, l, 0)
		put(t, w, 1, "1", "2")
		for _, first := range []uint64{0, 1, 2, 4} {
			w := begin(t, s, l, 2)
			if _, err := w.Write(t.Context(), first, []string{"no"}); err == nil || errors.Is(err, connect.ErrFenced) {
				t.Errorf("element %d behind 2: %v", first, err)
			}
		}
		put(t, begin(t, s, l, 2), 3, "3")
		equal(t, "values", b.values(topic)[0], count(1, 4))
	})
}

func TestEncodeFails(t *testing.T) {
	b := fake(t)
	topic := b.topic(1, nil)
	s, l := b.sink(topic), connect.Lane{Flow: topic, Output: "out"}
	w := begin(t, s, l, 0)
	if _, err := w.Write(t.Context(), 1, []string{"1", "\xff"}); !errors.Is(err, errNoText) || !strings.Contains(err.Error(), "element 2") {
		t.Errorf("%v, want the error of the element", err)
	}
	w.Close()
	put(t, begin(t, s, l, 0), 1, "1")
	equal(t, "values", b.values(topic)[0], count(1, 2))
}

// TestKeys checks that keys are partitioned as by Kafka's own clients, and that elements without a
// key go to the partition of their lane.
func TestKeys(t *testing.T) {
	b := fake(t)
	topic := b.topic(5, nil)
	s := b.sink(topic)
	s.Encode = func(_ uint64, x string) (*kgo.Record, error) {
		return &kgo.Record{Key: []byte(x), Value: []byte(x)}, nil
	}
	put(t, begin(t, s, connect.Lane{Flow: topic, Output: "out"}, 0), 1, count(0, 50)...)
	other := dial(t, b.seeds, nil, kgo.RecordPartitioner(kgo.StickyKeyPartitioner(nil)))
	where := map[string]int32{}
	for _, k := range count(0, 50) {
		r, err := other.cl.ProduceSync(t.Context(), &kgo.Record{Topic: topic, Key: []byte(k), Value: []byte("other")}).First()
		if err != nil {
			t.Fatal(err)
		}
		where[k] = r.Partition
	}
	for p, vs := range b.values(topic) {
		for _, v := range vs {
			if v != "other" && where[v] != p {
				t.Errorf("key %s is in partition %d, and %d for other clients", v, p, where[v])
			}
		}
	}
}

// TestIdleLaneIsRemembered checks that an idle lane writes its number again, so that the brokers do
// not forget it.
func TestIdleLaneIsRemembered(t *testing.T) {
	b := fake(t)
	topic := b.topic(1, nil)
	s, l := b.sink(topic), connect.Lane{Flow: topic, Output: "out"}
	written := make(chan int64, 100)
	b.fake.ControlKey(int16(kmsg.TxnOffsetCommit), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.fake.KeepControl()
		written <- req.(*kmsg.TxnOffsetCommitRequest).Topics[0].Partitions[0].Offset
		return nil, nil, false
	})
	s.Refresh = 10 * time.Millisecond
	w := begin(t, s, l, 0)
	put(t, w, 1, "1", "2", "3")
	for range 5 {
		if n := <-written; n != 3 {
			t.Fatalf("number %d was written, want 3", n)
		}
	}
	put(t, w, 4, "4") // not disturbed by the transactions in between
	w.Close()
	begin(t, s, l, 4)
	equal(t, "values", b.values(topic)[0], count(1, 5))
}

// TestIdleLaneIsFenced checks that an old writer that refreshes its number does not fence the
// current writer.
func TestIdleLaneIsFenced(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(1, nil)
		s, l := b.sink(topic), connect.Lane{Flow: topic, Output: "out"}
		idle := s
		idle.Refresh = 5 * time.Millisecond
		before := begin(t, idle, l, 0)
		put(t, before, 1, "1")
		w := begin(t, s, l, 1)
		for n := uint64(2); n < 30; n++ {
			put(t, w, n, fmt.Sprint(n))
		}
		if _, err := before.Write(t.Context(), 2, []string{"of the first"}); !errors.Is(err, connect.ErrFenced) {
			t.Errorf("the first writer: %v, want ErrFenced", err)
		}
		equal(t, "values", b.values(topic)[0], count(1, 30))
	})
}

func TestPlain(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		topic := b.topic(2, nil)
		s := kafka.PlainSink[string](b.sink(topic))
		l := connect.Lane{Flow: topic, Output: "out", Partition: 3}
		w, last, err := s.Open(t.Context(), l)
		if err != nil || last != 0 {
			t.Fatal(last, err)
		}
		defer w.Close()
		for range 2 { // a PlainSink writes a repeated element again
			if _, err := w.Write(t.Context(), 7, []string{"a", "b"}); err != nil {
				t.Fatal(err)
			}
		}
		equal(t, "values", b.values(topic)[1], []string{"a", "b", "a", "b"})
		var numbers []string
		r := b.reader(t, kafka.Topic[string, string]{Name: topic, Decode: func(r *kgo.Record) (string, string, error) {
			for _, h := range r.Headers {
				numbers = append(numbers, h.Key+" "+string(h.Value))
			}
			return text(r)
		}})
		read(t, open(t, r, splits(t, r)[1], dataflow.Position{}), records(4))
		equal(t, "headers", numbers[:4], []string{"millrace-lane " + l.String(), "millrace-number 7", "millrace-lane " + l.String(), "millrace-number 8"})
		if _, err := w.Write(t.Context(), 9, []string{"\xff"}); !errors.Is(err, errNoText) {
			t.Errorf("%v, want the error of the element", err)
		}
	})
}
