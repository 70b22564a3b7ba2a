package kafka_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
)

// BenchmarkSink writes transactions of 1,000 records of 256 bytes. In addition to the raw client, the sink writes the number.
func BenchmarkSink(b *testing.B) {
	const size = 1000
	at := real(b)
	values := make([][]byte, size)
	for i := range values {
		values[i] = value(i)
	}
	var raw reference
	report := func(b *testing.B) { raw.report(b, float64(b.N*size)/b.Elapsed().Seconds()) }
	b.Run("raw", func(b *testing.B) {
		topic := at.topic(1, nil)
		cl, err := kgo.NewClient(kgo.SeedBrokers(at.seeds...), kgo.DefaultProduceTopic(topic), kgo.TransactionalID("raw "+topic))
		if err != nil {
			b.Fatal(err)
		}
		defer cl.Close()
		for b.Loop() {
			if err := cl.BeginTransaction(); err != nil {
				b.Fatal(err)
			}
			var failed kgo.FirstErrPromise
			for _, v := range values {
				cl.Produce(b.Context(), &kgo.Record{Value: v}, failed.Promise())
			}
			if err := cl.Flush(b.Context()); err != nil {
				b.Fatal(err)
			}
			if err := failed.Err(); err != nil {
				b.Fatal(err)
			}
			if err := cl.EndTransaction(b.Context(), kgo.TryCommit); err != nil {
				b.Fatal(err)
			}
		}
		report(b)
	})
	b.Run("millrace", func(b *testing.B) {
		topic := at.topic(1, nil)
		s := kafka.Sink[[]byte]{Seeds: at.seeds, Topic: topic, Encode: func(_ uint64, v []byte) (*kgo.Record, error) { return &kgo.Record{Value: v}, nil }}
		w, last, err := s.Open(b.Context(), connect.Lane{Flow: topic, Output: "out"})
		if err != nil {
			b.Fatal(err)
		}
		defer w.Close()
		for b.Loop() {
			if _, err := w.Write(b.Context(), last+1, values); err != nil {
				b.Fatal(err)
			}
			last += size
		}
		report(b)
		b.StopTimer()
		if n := len(at.values(topic)[0]); uint64(n) != last {
			b.Fatal(fmt.Errorf("%d records, want %d", n, last))
		}
	})
}
