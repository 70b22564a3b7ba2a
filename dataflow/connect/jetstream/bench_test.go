package jetstream_test

import (
	"bytes"
	"testing"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/jetstream"
)

const (
	benchMessages = 50_000
	benchBatch    = 1000
)

// A reference is the rate of the raw client in messages a second: the best of its runs, because a server that has just started is
// slow.
type reference float64

// measured reports the rate of the raw client.
func (r *reference) measured(b *testing.B, messages int) {
	*r = max(*r, reference(rate(b, messages)))
}

// report reports a rate, and its ratio to the reference.
func (r *reference) report(b *testing.B, messages int) {
	b.ReportMetric(rate(b, messages)/float64(*r), "of-raw")
}

func rate(b *testing.B, messages int) float64 {
	rate := float64(b.N*messages) / b.Elapsed().Seconds()
	b.ReportMetric(rate/1000, "kmessages/s")
	return rate
}

// value returns 256 bytes.
func value() []byte { return bytes.Repeat([]byte("v"), 256) }

// BenchmarkSource reads messages of 256 bytes.
func BenchmarkSource(b *testing.B) {
	at := startBroker(b)
	at.stream(b, natsjs.StreamConfig{Name: "S", Subjects: []string{"s"}})
	for range benchMessages / benchBatch {
		all := make([]string, benchBatch)
		for i := range all {
			all[i] = string(value())
		}
		at.publish(b, "s", all...)
	}
	var r reference
	b.Run("raw", func(b *testing.B) {
		for b.Loop() {
			c, err := at.js.OrderedConsumer(b.Context(), "S", natsjs.OrderedConsumerConfig{})
			if err != nil {
				b.Fatal(err)
			}
			messages, err := c.Messages(natsjs.PullMaxMessages(2048))
			if err != nil {
				b.Fatal(err)
			}
			for range benchMessages {
				if _, err := messages.Next(natsjs.NextContext(b.Context())); err != nil {
					b.Fatal(err)
				}
			}
			messages.Stop()
		}
		r.measured(b, benchMessages)
	})
	reader := func(b *testing.B) connect.Reader[struct{}, []byte] {
		s := jetstream.Stream[struct{}, []byte]{JetStream: at.js, Name: "S", Decode: func(m jetstream.Message) (struct{}, []byte, error) {
			return struct{}{}, m.Data, nil
		}}
		reader, err := s.Reader()
		if err != nil {
			b.Fatal(err)
		}
		return reader
	}
	b.Run("cursor", func(b *testing.B) {
		reader := reader(b)
		all, err := reader.Splits(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		var batch connect.Batch[struct{}, []byte]
		for b.Loop() {
			c, err := reader.Open(b.Context(), all[0], dataflow.Position{})
			if err != nil {
				b.Fatal(err)
			}
			for n := 0; n < benchMessages; n += len(batch.Values) {
				batch.Reset()
				if err := c.Next(b.Context(), &batch); err != nil {
					b.Fatal(err)
				}
			}
			c.Close()
		}
		r.report(b, benchMessages)
	})
	b.Run("flow in memory", func(b *testing.B) {
		for b.Loop() {
			f := dataflow.New()
			in, xs := connect.WholeInput[[]byte](dataflow.At[shop](f), "in")
			out := dataflow.Output(dataflow.Scan(xs, func() int { return 0 }, func(n *int, _ []byte, emit func(int)) {
				if *n++; *n == benchMessages {
					emit(*n)
				}
			}), "out")
			app, err := dataflow.Start(b.Context(), f)
			if err != nil {
				b.Fatal(err)
			}
			pumps, err := connect.Attach(b.Context(), app, connect.Whole(reader(b)), in, connect.Options{})
			if err != nil {
				b.Fatal(err)
			}
			if _, err := out.Receive(b.Context()); err != nil {
				b.Fatal(err)
			}
			if err := pumps.Stop(b.Context()); err != nil {
				b.Fatal(err)
			}
			app.Stop(b.Context())
		}
		r.report(b, benchMessages)
	})
}

// BenchmarkSink writes messages of 256 bytes. The raw client has up to a batch of them in flight.
func BenchmarkSink(b *testing.B) {
	at := startBroker(b)
	at.stream(b, natsjs.StreamConfig{Name: "R", Subjects: []string{"r"}})
	at.stream(b, natsjs.StreamConfig{Name: "A", Subjects: []string{"a.>"}, AllowAtomicPublish: true})
	at.stream(b, natsjs.StreamConfig{Name: "P", Subjects: []string{"p.>"}})
	values := make([][]byte, benchBatch)
	for i := range values {
		values[i] = value()
	}
	write := func(b *testing.B, r *reference, stream, prefix string, values [][]byte) {
		s := jetstream.Sink[[]byte]{JetStream: at.js, Stream: stream, Prefix: prefix, Encode: func(_ uint64, v []byte) (*nats.Msg, error) { return &nats.Msg{Data: v}, nil }}
		w, last, err := s.Open(b.Context(), lane)
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if _, err := w.Write(b.Context(), last+1, values); err != nil {
				b.Fatal(err)
			}
			last += uint64(len(values))
		}
		r.report(b, len(values))
	}
	var together, alone reference
	b.Run("raw, 1000 at once", func(b *testing.B) {
		for b.Loop() {
			for _, v := range values {
				if _, err := at.js.PublishAsync("r", v); err != nil {
					b.Fatal(err)
				}
			}
			<-at.js.PublishAsyncComplete()
		}
		together.measured(b, len(values))
	})
	b.Run("atomic, 1000 at once", func(b *testing.B) { write(b, &together, "A", "a", values) })
	b.Run("raw, one by one", func(b *testing.B) {
		for b.Loop() {
			if _, err := at.js.Publish(b.Context(), "r", values[0]); err != nil {
				b.Fatal(err)
			}
		}
		alone.measured(b, 1)
	})
	b.Run("one by one", func(b *testing.B) { write(b, &alone, "P", "p", values[:1]) })
	b.Run("one by one, 1000 of them", func(b *testing.B) { write(b, &alone, "P", "p", values) })
	b.Run("10 of them", func(b *testing.B) { write(b, &alone, "A", "a", values[:10]) })
}
