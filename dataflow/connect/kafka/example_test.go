package kafka_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/kafka"
	"github.com/millrace/millrace/keyedstream"
)

type shop struct{ dataflow.Process }

// exampleCluster starts a broker in this process, with the topics orders and bills. All orders of a customer are in one
// partition.
func exampleCluster() *kfake.Cluster {
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "orders"), kfake.SeedTopics(1, "bills"))
	if err != nil {
		log.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(c.ListenAddrs()...))
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()
	for _, order := range []string{"ann bread", "bob tea", "ann milk"} {
		customer, goods, _ := strings.Cut(order, " ")
		r := &kgo.Record{Topic: "orders", Key: []byte(customer), Value: []byte(goods)}
		if err := cl.ProduceSync(context.Background(), r).FirstErr(); err != nil {
			log.Fatal(err)
		}
	}
	return c
}

// Orders are read by customer, and bills are written. The flow is in memory; durable.Start would keep both across a crash.
func Example() {
	ctx := context.Background()
	cluster := exampleCluster()
	defer cluster.Close()
	seeds := cluster.ListenAddrs()

	f := dataflow.New()
	in, orders := connect.Input[string, string](dataflow.At[shop](f), "orders")
	out := keyedstream.Output(keyedstream.Map(orders, func(goods string) string { return "a bill for " + goods }), "bills")
	app, err := dataflow.Start(ctx, f)
	if err != nil {
		log.Fatal(err)
	}

	reader, err := kafka.Topic[string, string]{
		Seeds: seeds, Name: "orders", Partitions: 4,
		Decode: func(r *kgo.Record) (string, string, error) { return string(r.Key), string(r.Value), nil },
	}.Reader()
	if err != nil {
		log.Fatal(err)
	}
	source := connect.ByKey(reader, "producers hash the customer, and the topic keeps its four partitions: Topic.Partitions")
	pumps, err := connect.Attach(ctx, app, source, in, connect.Options{})
	if err != nil {
		log.Fatal(err)
	}

	type bill = dataflow.Entry[string, string]
	drains := connect.Drain(ctx, app, out, kafka.Sink[bill]{
		Seeds: seeds, Topic: "bills",
		Encode: func(_ uint64, b bill) (*kgo.Record, error) {
			return &kgo.Record{Key: []byte(b.Key), Value: []byte(b.Value)}, nil
		},
	}, connect.DrainOptions{Flow: "shop", Output: "bills"})

	bills, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumeTopics("bills"), kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	if err != nil {
		log.Fatal(err)
	}
	defer bills.Close()
	for n := 0; n < 3; {
		bills.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
			fmt.Printf("%s: %s\n", r.Key, r.Value)
			n++
		})
	}
	if err := pumps.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	if err := drains.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	if err := app.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	// Unordered output:
	// ann: a bill for bread
	// ann: a bill for milk
	// bob: a bill for tea
}

// A record is not bad because the schema registry does not answer.
func ExampleTopic() {
	cluster := exampleCluster()
	defer cluster.Close()
	reader, err := kafka.Topic[string, string]{
		Seeds: cluster.ListenAddrs(), Name: "orders",
		Decode: func(r *kgo.Record) (string, string, error) {
			schema, err := lookUp(r)
			if err != nil {
				return "", "", connect.Retry(err)
			}
			return string(r.Key), schema + string(r.Value), nil
		},
	}.Reader()
	if err != nil {
		log.Fatal(err)
	}
	defer reader.Close()
	splits, err := reader.Splits(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	for _, s := range splits {
		fmt.Println(s)
	}
	// Output:
	// orders/0
	// orders/1
	// orders/2
	// orders/3
}

func lookUp(*kgo.Record) (string, error) { return "order of ", nil }

// A sink that writes at least once puts a number into each record.
func ExamplePlainSink() {
	ctx := context.Background()
	cluster := exampleCluster()
	defer cluster.Close()
	var sink connect.Sink[string, connect.Repeats] = kafka.PlainSink[string]{
		Seeds: cluster.ListenAddrs(), Topic: "bills",
		Encode: func(_ uint64, x string) (*kgo.Record, error) { return &kgo.Record{Value: []byte(x)}, nil },
	}
	w, _, err := sink.Open(ctx, connect.Lane{Flow: "shop", Output: "bills"})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Write(ctx, 7, []string{"tea"}); err != nil {
		log.Fatal(err)
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("bills"))
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()
	cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) {
		fmt.Printf("%s %s=%s\n", r.Value, r.Headers[1].Key, r.Headers[1].Value)
	})
	// Output:
	// tea millrace-number=7
}
