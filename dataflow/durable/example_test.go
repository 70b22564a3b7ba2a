package durable_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

type Server struct{ dataflow.Process }

// Ports are the inputs and outputs of the flow.
type Ports struct {
	Votes  *dataflow.KeyedInputPort[string, bool]
	Passed *dataflow.EntryOutputPort[string, int]
}

// build is called once for the ports, and whenever the state is restored.
func build(flow *dataflow.Flow) Ports {
	votes, cast := keyedstream.Input[string, bool](dataflow.At[Server](flow), "votes")
	yes := keyedstream.Filter(cast, func(yes bool) bool { return yes })
	passed := keyedstream.FoldEarlyStop(yes, func() int { return 0 }, func(n *int, _ bool) bool { *n++; return *n == 3 })
	return Ports{votes, keyedsingleton.Output(passed, "passed")}
}

// The first process casts two votes. The second one, possibly on the next day, casts the
// third.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "millrace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	opts := durable.Options{Log: natslog.Embedded(dir), Logger: slog.New(slog.DiscardHandler)}

	app, err := durable.Start(ctx, build, opts)
	if err != nil {
		panic(err)
	}
	app.Ports.Votes.Send(ctx, "longer lunch", true)
	app.Ports.Votes.Send(ctx, "longer lunch", true)
	fmt.Println(app.Stop(ctx))

	if app, err = durable.Start(ctx, build, opts); err != nil {
		panic(err)
	}
	app.Ports.Votes.Send(ctx, "longer lunch", true)
	fmt.Println(app.Ports.Passed.Await(ctx, "longer lunch"))
	fmt.Println(app.Stop(ctx))
	// Output:
	// <nil>
	// 3 <nil>
	// <nil>
}

// A till counts its sales. When it does not know whether a sale was accepted, it sends it
// again with the same number, and the sale is taken once.
func Example_numbered() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "millrace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	type ports struct {
		sales *dataflow.SenderInputPort[string, int]
		sums  *dataflow.SingletonOutputPort[dataflow.View[string, int]]
	}
	shop := func(flow *dataflow.Flow) ports {
		in, sales := dataflow.SenderInput[string, int](dataflow.At[Server](flow), "sales")
		return ports{in, singleton.Output(keyedsingleton.IntoSingleton(keyedstream.Sum(sales)), "sums")}
	}
	opts := durable.Options{Log: natslog.Embedded(dir), Logger: slog.New(slog.DiscardHandler)}

	app, err := durable.Start(ctx, shop, opts)
	if err != nil {
		panic(err)
	}
	till := app.Ports.sales.Sender("till 1")
	for _, n := range []uint64{0, 1, 1} {
		fmt.Println(till.SendNumbered(ctx, n, 100))
	}
	fmt.Println(app.Stop(ctx))

	// The till restarts, too, and sends from the beginning.
	if app, err = durable.Start(ctx, shop, opts); err != nil {
		panic(err)
	}
	fmt.Println(app.Ports.sales.Sender("till 1").SendBatchNumbered(ctx, 0, []int{100, 100, 20}))
	for sums := range app.Ports.sums.Watch(ctx) {
		if sum, ok := sums.Get("till 1"); ok && sum >= 220 {
			fmt.Println(sum)
			break
		}
	}
	fmt.Println(app.Stop(ctx))
	// Output:
	// <nil>
	// <nil>
	// <nil>
	// <nil>
	// 3 <nil>
	// 220
	// <nil>
}

// Status reports the progress of each partition. This flow has one.
func ExampleApp_Status() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "millrace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	app, err := durable.Start(ctx, build, durable.Options{Log: natslog.Embedded(dir), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	for range 3 {
		app.Ports.Votes.Send(ctx, "longer lunch", true)
	}
	app.Ports.Passed.Await(ctx, "longer lunch")
	for _, s := range app.Status() {
		fmt.Println("partition", s.Partition, "of", s.Name, "owned:", s.Owned)
		fmt.Println(s.Records, "records, up to position", s.Position, "of the log")
		fmt.Println(s.Outputs[0].Unread, "entry of", s.Outputs[0].Port, "waits")
	}
	fmt.Println(app.Stop(ctx))
	// Output:
	// partition 0 of Server owned: true
	// 3 records, up to position 3 of the log
	// 1 entry of passed waits
	// <nil>
}
