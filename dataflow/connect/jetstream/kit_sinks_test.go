package jetstream_test

import (
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/connecttest"
	"github.com/millrace/millrace/dataflow/connect/jetstream"
)

// values returns what a reader of the stream reads.
func (b *broker) values(t testing.TB, s jetstream.Stream[struct{}, string]) []string {
	t.Helper()
	stream, err := b.js.Stream(t.Context(), s.Name)
	if err != nil {
		t.Fatal(err)
	}
	r := b.reader(t, s)
	c := open(t, r, splits(t, r)[0], dataflow.Position{})
	all, err := until(t, c, func(all *connect.Batch[struct{}, string]) bool {
		return all.End.Major >= stream.CachedInfo().State.LastSeq
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.Values
}

func TestKitOfSinks(t *testing.T) {
	for _, c := range []struct {
		name, subject string
		atomic        bool
	}{{"atomic batches", "", true}, {"one by one", "", false}, {"other subjects", "out.here", true}} {
		t.Run(c.name, func(t *testing.T) {
			if c.atomic {
				jetstream.AlwaysTogether(t)
			}
			connecttest.Sink(t, func(t *testing.T) connecttest.Target[string, connect.Atomic] {
				b := startBroker(t)
				b.stream(t, natsjs.StreamConfig{Name: "O", Subjects: []string{"lanes.>", "out.>"}, AllowAtomicPublish: c.atomic})
				return connecttest.Target[string, connect.Atomic]{
					Sink: jetstream.Sink[string]{JetStream: b.js, Stream: "O", Prefix: "lanes", Encode: func(_ uint64, x string) (*nats.Msg, error) {
						return &nats.Msg{Subject: c.subject, Data: []byte(x)}, nil
					}},
					Element: func(n uint64) string { return strconv.FormatUint(n, 10) },
					Read:    func(t *testing.T) []string { return b.values(t, jetstream.Stream[struct{}, string]{Name: "O"}) },
				}
			})
		})
	}
}
