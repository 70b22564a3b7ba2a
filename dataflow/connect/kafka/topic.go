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
	// Seeds are addresses of brokers, through which the others are found.
	Seeds []string
	// Name is the name of the topic.
	Name string

	// Decode decodes a record. Several goroutines call it, once or more for each record. It may retain the record. The value of a
	// tombstone is nil. After an error or a panic the record is a [connect.Poison]. An error marked with [connect.Retry], such as that a
	// schema registry does not answer, means that it is decoded again later.
	Decode func(*kgo.Record) (K, V, error)

	// From skips records that were written before that time, for a split of which the flow has read nothing yet. The zero time
	// skips none.
	From time.Time

	// Partitions is how many partitions the topic must have, or zero for any number. With another number nothing is read, and the
	// error is a [connect.ErrRekeyed]: producers choose a partition by the number of partitions, so a change moves keys to other
	// partitions. Set it for a source of [connect.ByKey]. For other sources, new partitions are read.
	Partitions int

	// Group is a consumer group whose offsets follow what is durable in the flow, for tools that show the lag of
	// groups. The offsets are never read and nothing depends on them, so a failure to write them is not an
	// error. If Group is empty, none are written.
	Group string

	// Client contains additional options of the client.
	Client []kgo.Opt
}

// Reader returns a reader of the topic, or an error if an option is invalid.
func (t Topic[K, V]) Reader() (connect.Reader[K, V], error) {
	if t.Decode == nil {
		return nil, fmt.Errorf("kafka: topic %q: Decode is nil", t.Name)
	}
	// A longer metadata cache would hide that a topic was created again, or has more partitions.
	cl, err := kgo.NewClient(options(t.Seeds, append([]kgo.Opt{kgo.MetadataMinAge(100 * time.Millisecond)}, t.Client...))...)
	if err != nil {
		return nil, fmt.Errorf("kafka: topic %q: %w", t.Name, err)
	}
	return &reader[K, V]{topic: t, client: cl, admin: kadm.NewClient(cl)}, nil
}

// options returns the options of every client of this package. Later options override earlier ones.
func options(seeds []string, others []kgo.Opt) []kgo.Opt {
	return append([]kgo.Opt{kgo.SeedBrokers(seeds...), kgo.ClientID("millrace")}, others...)
}

// A reader asks for partitions and offsets through its own client. Each cursor has another client.
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

// look returns what the brokers currently report for the topic.
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

// splitID returns the ID of a split: the topic's ID as Kafka writes it, and the partition.
func splitID(topic [16]byte, partition int32) string {
	return fmt.Sprintf("kafka/%s/%d", base64.RawURLEncoding.EncodeToString(topic[:]), partition)
}

// parseSplit is the inverse of splitID.
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
