package kafka_test

import (
	"strconv"
	"testing"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/connecttest"
	"github.com/millrace/millrace/dataflow/connect/kafka"
)

func TestKitOfReaders(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		connecttest.Reader(t, func(t *testing.T) connecttest.Source[string, string] {
			b := *b
			b.t = t
			topic := b.topic(3, nil)
			want := map[string][]string{}
			fill := func(from int) {
				b.cl.PurgeTopicsFromClient(topic)
				for p := range 3 {
					values := count(from+1000*p, from+1000*p+300)
					b.write(topic, int32(p), values[:100]...)
					b.write(topic, int32(p), "\xffbad")
					b.write(topic, int32(p), values[100:]...)
					want[topic+"/"+string(rune('0'+p))] = values
				}
			}
			fill(0)
			r := b.reader(t, kafka.Topic[string, string]{Name: topic})
			before := splits(t, r)
			return connecttest.Source[string, string]{Reader: r, Want: want, Bad: 1,
				Forget: func(split string, upTo dataflow.Position) {
					b.forget(topic, int32(split[len(split)-1]-'0'), int64(upTo.Major))
				},
				Remake: func() {
					b.remake(topic, 3)
					for now := splits(t, r); len(now) != 3 || now[0].ID == before[0].ID; now = splits(t, r) {
					}
					fill(5000)
				},
			}
		})
	})
}

// TestKitOfSinks runs the kit on the sink, with a topic for each test.
func TestKitOfSinks(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		connecttest.Sink(t, func(t *testing.T) connecttest.Target[string, connect.Atomic] {
			b := *b
			b.t = t
			topic := b.topic(1, nil)
			return connecttest.Target[string, connect.Atomic]{Sink: b.sink(topic), Element: numbered, Read: b.all(topic)}
		})
	})
}

func TestKitOfPlainSinks(t *testing.T) {
	onBoth(t, func(t *testing.T, b *broker) {
		connecttest.Sink(t, func(t *testing.T) connecttest.Target[string, connect.Repeats] {
			b := *b
			b.t = t
			topic := b.topic(1, nil)
			return connecttest.Target[string, connect.Repeats]{Sink: kafka.PlainSink[string](b.sink(topic)), Element: numbered, Read: b.all(topic)}
		})
	})
}

func numbered(n uint64) string { return strconv.FormatUint(n, 10) }

// all returns a function that returns the values that a reader of committed transactions reads from
// a topic with one partition.
func (b *broker) all(topic string) func(*testing.T) []string {
	return func(*testing.T) []string { return b.values(topic)[0] }
}
