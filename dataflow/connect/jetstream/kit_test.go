package jetstream_test

import (
	"strconv"
	"testing"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect/connecttest"
	"github.com/millrace/millrace/dataflow/connect/jetstream"
)

func forget(t *testing.T, b *broker, name string) func(string, dataflow.Position) {
	return func(_ string, upTo dataflow.Position) {
		s, err := b.js.Stream(t.Context(), name)
		if err == nil {
			err = s.Purge(t.Context(), natsjs.WithPurgeSequence(upTo.Major+1))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestKitOfReaders(t *testing.T) {
	t.Parallel()
	t.Run("a stream", func(t *testing.T) {
		t.Parallel()
		connecttest.Reader(t, func(t *testing.T) connecttest.Source[struct{}, string] {
			b := startBroker(t)
			fill := func(from int) []string {
				b.stream(t, natsjs.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
				values := count(from, from+3000)
				b.publish(t, "s.a", values[:1000]...)
				b.publish(t, "s.a", "\xffbad")
				b.publish(t, "s.b", values[1000:]...)
				return values
			}
			want := fill(0)
			return connecttest.Source[struct{}, string]{
				Reader: b.reader(t, jetstream.Stream[struct{}, string]{Name: "S"}),
				Want:   map[string][]string{"S": want}, Bad: 1,
				Forget: forget(t, b, "S"),
				Remake: func() {
					if err := b.js.DeleteStream(t.Context(), "S"); err != nil {
						t.Fatal(err)
					}
					fill(5000)
				},
			}
		})
	})
	t.Run("subjects", func(t *testing.T) {
		t.Parallel()
		connecttest.Reader(t, func(t *testing.T) connecttest.Source[struct{}, string] {
			b := startBroker(t)
			b.stream(t, natsjs.StreamConfig{Name: "S", Subjects: []string{"s.>"}})
			want := map[string][]string{}
			for i := range 200 { // interleaved, with others between
				for j, subject := range []string{"s.a.x", "s.b.y", "s.c"} {
					value := strconv.Itoa(1000*j + i)
					b.publish(t, subject, value)
					if j < 2 {
						name := []string{"S/s.a.*", "S/s.b.>"}[j]
						want[name] = append(want[name], value)
					}
				}
			}
			return connecttest.Source[struct{}, string]{
				Reader: b.reader(t, jetstream.Stream[struct{}, string]{Name: "S", Subjects: []string{"s.a.*", "s.b.>"}}),
				Want:   want, // to forget something of one split is to forget it of the other one
			}
		})
	})
}
