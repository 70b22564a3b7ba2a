package kafka

import (
	"context"
	"encoding/base64"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow/connect"
)

// A Topic is a topic that is read.
type Topic[K comparable, V any] struct {
	// Seeds are addresses of brokers. Others are found through them.
	Seeds []string
	// Name is the topic's name.
	Name string

	// Decode returns what a record means. It is called by several goroutines, once or more for each record, with a record that it
	// may keep. The value of a tombstone is nil. An error makes the record a [connect.Poison]; one of [connect.Retry], such as that
	// a registry of schemas does not answer, has it decoded again later.
	Decode func(*kgo.Record) (K, V, error)

	// From leaves out records that were written before it, of a split of which the flow has nothing yet. The zero time leaves out
	// none.
	From time.Time

	// Partitions is how many partitions the topic has, zero for any number. With another number nothing is read, and the error is a
	// [connect.ErrRekeyed]: producers choose a partition by the number of partitions, so the records of a key before and after a
	// change are in two. A source of [connect.ByKey] says it; for the others, partitions that come are read.
	Partitions int

	// Group is a consumer group whose offsets follow what is durable in the flow, for those who look at the lag of groups. They are
	// never read, and nothing depends on them: that they could not be written is not an error. None are written if it is empty.
	Group string

	// Client has further options of the client.
	Client []kgo.Opt
}

// Reader returns a reader of the topic. The error is one of its options.
func (t Topic[K, V]) Reader() (connect.Reader[K, V], error) {
	if t.Decode == nil {
		return nil, fmt.Errorf("kafka: topic %q: Decode is nil", t.Name)
	}
	// What the client knows of a topic would hide one that was made again, or has more partitions.
	cl, err := kgo.NewClient(options(t.Seeds, append([]kgo.Opt{kgo.MetadataMinAge(100 * time.Millisecond)}, t.Client...))...)
	if err != nil {
		return nil, fmt.Errorf("kafka: topic %q: %w", t.Name, err)
	}
	return &reader[K, V]{topic: t, client: cl, admin: kadm.NewClient(cl)}, nil
}

// options are those of any client of this package. What is given after them counts.
func options(seeds []string, others []kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID("millrace")}, others...)
}

// A reader asks for partitions and offsets through a client of its own, and has one for each cursor.
type reader[K comparable, V any] struct {
	topic  Topic[K, V]
	client *kgo.Client
	admin  *kadm.Client
}

func (r *reader[K, V]) Splits(ctx context.Context) ([]connect.Split, error) {
	d, err := r.look(ctx)
	if err != nil {
		return nil, r.fail(err)
	}
	if d.ID == (kadm.TopicID{}) {
		return nil, fmt.Errorf("kafka: topic %q: the brokers do not name topics by an id: Kafka 2.8 or later is needed", r.topic.Name)
	}
	if want := r.topic.Partitions; want != 0 && want != len(d.Partitions) {
		return nil, fmt.Errorf("kafka: topic %q has %d partitions, and Topic.Partitions is %d: %w", r.topic.Name, len(d.Partitions), want, connect.ErrRekeyed)
	}
	splits := make([]connect.Split, 0, len(d.Partitions))
	for _, p := range d.Partitions.Numbers() {
		splits = append(splits, connect.Split{ID: splitID(d.ID, p), Name: fmt.Sprintf("%s/%d", r.topic.Name, p)})
	}
	return splits, nil
}

// look returns what the brokers say of the topic now.
func (r *reader[K, V]) look(ctx context.Context) (kadm.TopicDetail, error) {
	topics, err := r.admin.ListTopics(ctx, r.topic.Name)
	if err != nil {
		return kadm.TopicDetail{}, err
	}
	d := topics[r.topic.Name]
	return d, d.Err
}

func (r *reader[K, V]) Close() error {
	r.client.Close()
	return nil
}

func (r *reader[K, V]) fail(err error) error {
	return failure(fmt.Sprintf("kafka: topic %q", r.topic.Name), err)
}

// splitID returns the id of a split: that of the topic as Kafka writes it, and the partition.
func splitID(topic [16]byte, partition int32) string {
	return fmt.Sprintf("kafka/%s/%d", base64.RawURLEncoding.EncodeToString(topic[:]), partition)
}

// parseSplit returns what splitID was given.
func parseSplit(id string) (topic [16]byte, partition int32, err error) {
	var text string
	if _, err := fmt.Sscanf(id, "kafka/%22s/%d", &text, &partition); err != nil {
		return topic, 0, fmt.Errorf("kafka: %q is not the id of a split", id)
	}
	if n, err := base64.RawURLEncoding.Decode(topic[:], []byte(text)); err != nil || n != len(topic) {
		return topic, 0, fmt.Errorf("kafka: %q is not the id of a split", id)
	}
	return topic, partition, nil
}
