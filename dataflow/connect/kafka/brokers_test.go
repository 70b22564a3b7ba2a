package kafka_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
	"github.com/millrace/millrace/dataflow/connect/kafka/kafkatest"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/keyedstream"
)

// passed is a flow that outputs what it receives, with the name of the split.
type passed struct {
	in  *connect.Port[string, string, dataflow.TotalOrder, dataflow.ExactlyOnce]
	out *dataflow.OutputPort[string]
}

func buildPassed(f *dataflow.Flow) passed {
	in, records := connect.Input[string, string](dataflow.At[reads](f), "records")
	lines := keyedstream.MapWithKey(records, func(split, x string) string { return split + " " + x })
	return passed{in, dataflow.Output(keyedstream.Values(lines), "out")}
}

// TestBrokersThatAreKilled reads a topic of three brokers and writes another one. Meanwhile, each broker is killed, and restarted
// when the others have continued. Each record comes once, in order. The leaders change, and so do the epochs in the positions.
func TestBrokersThatAreKilled(t *testing.T) {
	c := kafkatest.StartCluster(t)
	b := dial(t, c.Addrs[:], nil)
	replicated := func(name string, partitions int32) string {
		least := "2"
		made, err := b.admin.CreateTopic(t.Context(), partitions, kafkatest.Brokers, map[string]*string{"min.insync.replicas": &least}, name)
		if err == nil {
			err = made.Err
		}
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	var from, to string
	b.until(func() bool { // brokers join one after the other
		brokers, err := b.admin.ListBrokers(t.Context())
		return err == nil && len(brokers) == kafkatest.Brokers
	})
	from, to = replicated("from", 3), replicated("to", 1)
	began := time.Now()

	writing, cancel := context.WithCancel(t.Context())
	defer cancel()
	wrote := make(chan int)
	go func() {
		n := 0
		for ; writing.Err() == nil; n++ {
			var rs []*kgo.Record
			for p := range int32(3) {
				rs = append(rs, &kgo.Record{Topic: from, Partition: p, Value: []byte(fmt.Sprint(n))})
			}
			if err := b.cl.ProduceSync(t.Context(), rs...).FirstErr(); err != nil {
				t.Errorf("producing: %v", err)
			}
		}
		wrote <- n
	}()

	app, err := durable.Start(t.Context(), buildPassed, durable.Options{Log: disklog.Dir(t.TempDir()), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	r, err := kafka.Topic[string, string]{Seeds: b.seeds, Name: from, Decode: text}.Reader()
	if err != nil {
		t.Fatal(err)
	}
	var failed atomic.Int64
	pumps, err := connect.Attach(t.Context(), app, connect.BySplit(r), app.Ports.in, connect.Options{OnError: func(_ connect.Split, err error) {
		failed.Add(1)
		if !connect.Passes(err) {
			t.Errorf("a split fails: %v", err)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	sink := kafka.Sink[string]{Seeds: b.seeds, Topic: to, Encode: func(_ uint64, x string) (*kgo.Record, error) {
		return &kgo.Record{Value: []byte(x)}, nil
	}}
	drains := connect.Drain(t.Context(), app, app.Ports.out, sink, connect.DrainOptions{Flow: "brokers", Output: "out", Most: 500})
	written := func() uint64 {
		select {
		case <-drains.Done():
			t.Fatalf("the sink has ended: %v", drains.Err())
		default:
		}
		if lanes := drains.Status(); len(lanes) > 0 {
			return lanes[0].Number
		}
		return 0
	}
	further := func() { // waits for records that are written from now on
		n := written()
		b.until(func() bool { return written() > n+100 })
	}
	further()
	for i := range kafkatest.Brokers {
		c.Kill(i)
		further()
		c.Start(i)
		for _, topic := range []string{from, to} {
			if err := c.InSync(t.Context(), b.cl, topic); err != nil {
				t.Fatal(err)
			}
		}
		further()
	}
	cancel()
	n := <-wrote
	b.until(func() bool { return written() == uint64(3*n) })
	if err := pumps.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := drains.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if err := app.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	got := map[string][]string{}
	for _, line := range b.values(to)[0] {
		split, x, _ := strings.Cut(line, " ")
		got[split] = append(got[split], x)
	}
	for p := range 3 {
		equal(t, fmt.Sprint("partition ", p), got[fmt.Sprintf("%s/%d", from, p)], count(0, n))
	}
	t.Logf("%d records in %v, with %d errors that passed", 3*n, time.Since(began).Round(time.Second), failed.Load())
}
