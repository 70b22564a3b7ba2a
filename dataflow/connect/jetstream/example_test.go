package jetstream_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/jetstream"
)

type shop struct{ dataflow.Process }

// exampleServer starts a server in this process, with the streams ORDERS and BILLS.
func exampleServer() (natsjs.JetStream, func()) {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "jetstream")
	if err != nil {
		log.Fatal(err)
	}
	s, err := server.NewServer(&server.Options{DontListen: true, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	if err != nil {
		log.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(time.Minute) {
		log.Fatal("the server did not start")
	}
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		log.Fatal(err)
	}
	js, err := natsjs.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	for _, cfg := range []natsjs.StreamConfig{
		{Name: "ORDERS", Subjects: []string{"orders.*"}},
		{Name: "BILLS", Subjects: []string{"bills.>"}, AllowAtomicPublish: true},
	} {
		if _, err := js.CreateStream(ctx, cfg); err != nil {
			log.Fatal(err)
		}
	}
	for _, order := range [][2]string{{"orders.ann", "bread"}, {"orders.bob", "tea"}, {"orders.ann", "milk"}} {
		if _, err := js.Publish(ctx, order[0], []byte(order[1])); err != nil {
			log.Fatal(err)
		}
	}
	return js, func() {
		nc.Close()
		s.Shutdown()
		s.WaitForShutdown()
		os.RemoveAll(dir)
	}
}

// decodeOrder returns an order as text.
func decodeOrder(m jetstream.Message) (struct{}, string, error) {
	return struct{}{}, m.Subject + ": " + string(m.Data), nil
}

// A stream is read in order, and bills are written. The flow is in memory; durable.Start would keep both across a crash.
func Example() {
	ctx := context.Background()
	js, end := exampleServer()
	defer end()

	f := dataflow.New()
	in, orders := connect.WholeInput[string](dataflow.At[shop](f), "orders")
	out := dataflow.Output(dataflow.Map(orders, func(order string) string { return "a bill for " + order }), "bills")
	app, err := dataflow.Start(ctx, f)
	if err != nil {
		log.Fatal(err)
	}
	reader, err := jetstream.Stream[struct{}, string]{JetStream: js, Name: "ORDERS", Decode: decodeOrder}.Reader()
	if err != nil {
		log.Fatal(err)
	}
	pumps, err := connect.Attach(ctx, app, connect.Whole(reader), in, connect.Options{})
	if err != nil {
		log.Fatal(err)
	}
	drains := connect.Drain(ctx, app, out, jetstream.Sink[string]{
		JetStream: js, Stream: "BILLS", Prefix: "bills",
		Encode: func(_ uint64, bill string) (*nats.Msg, error) { return &nats.Msg{Data: []byte(bill)}, nil },
	}, connect.DrainOptions{Flow: "shop", Output: "bills"})

	bills, err := js.OrderedConsumer(ctx, "BILLS", natsjs.OrderedConsumerConfig{})
	if err != nil {
		log.Fatal(err)
	}
	for n := 0; n < 3; {
		m, err := bills.Next()
		if err != nil {
			log.Fatal(err)
		}
		if number := m.Headers().Get("Millrace-Number"); number != "" {
			fmt.Printf("%s: %s\n", number, m.Data())
			n++
		}
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
	// Output:
	// 1: a bill for orders.ann: bread
	// 2: a bill for orders.bob: tea
	// 3: a bill for orders.ann: milk
}

// Each subject is a split: BySplit keeps the order of each, and they are read concurrently.
func ExampleStream_Reader() {
	js, end := exampleServer()
	defer end()
	reader, err := jetstream.Stream[struct{}, string]{
		JetStream: js, Name: "ORDERS", Subjects: []string{"orders.ann", "orders.bob"}, Decode: decodeOrder,
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
	// ORDERS/orders.ann
	// ORDERS/orders.bob
}

// Elements may have subjects of their own. They are written together with a mark of the lane that holds the number of the last
// one.
func ExampleSink() {
	ctx := context.Background()
	js, end := exampleServer()
	defer end()
	sink := jetstream.Sink[string]{
		JetStream: js, Stream: "BILLS", Prefix: "bills.lanes",
		Encode: func(_ uint64, customer string) (*nats.Msg, error) {
			return &nats.Msg{Subject: "bills.of." + customer, Data: []byte("a bill")}, nil
		},
	}
	lane := connect.Lane{Flow: "shop", Output: "bills"}
	w, _, err := sink.Open(ctx, lane)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := w.Write(ctx, 1, []string{"ann", "bob"}); err != nil {
		log.Fatal(err)
	}
	_, last, err := sink.Open(ctx, lane)
	if err != nil {
		log.Fatal(err)
	}
	_, err = w.Write(ctx, 3, []string{"ann"})
	fmt.Println(last, errors.Is(err, connect.ErrFenced))
	// Output:
	// 2 true
}
