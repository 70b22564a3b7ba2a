package dataflow_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// Several goroutines may send to a shared input. The count does not depend on their order.
func ExampleSharedInput() {
	ctx := context.Background()
	flow := dataflow.New()
	visits, seen := dataflow.SharedInput[string](dataflow.At[Station](flow), "visits")
	count := singleton.Output(dataflow.Count(seen), "count")
	app, _ := dataflow.Start(ctx, flow)

	var visitors sync.WaitGroup
	for _, name := range []string{"ada", "grace", "edsger"} {
		visitors.Go(func() { visits.Send(ctx, name) })
	}
	visitors.Wait()
	fmt.Println(app.Stop(ctx))
	fmt.Println(count.Latest())
	// Output:
	// <nil>
	// 3 true
}

// A reader of two topic partitions restarts before the last offset it sent. Offsets have gaps, and each partition has
// its own.
func ExampleSharedKeyedInputPort_SendBatchAt() {
	ctx := context.Background()
	flow := dataflow.New()
	orders, paid := keyedstream.SharedInput[string, int](dataflow.At[Station](flow), "orders")
	sums := singleton.Output(keyedsingleton.IntoSingleton(keyedstream.Sum(paid)), "sums")
	app, _ := dataflow.Start(ctx, flow)

	at := []dataflow.Position{{Major: 0}, {Major: 2}, {Major: 7}}
	orders.SendBatchAt(ctx, "orders/0", at, []string{"ada", "bob", "ada"}, []int{10, 20, 30})
	orders.SendBatchAt(ctx, "orders/0", at[1:], []string{"bob", "ada"}, []int{20, 30}) // again
	orders.SendBatchAt(ctx, "orders/1", at[:1], []string{"ada"}, []int{1})
	fmt.Println(app.Stop(ctx))
	fmt.Println(sums.Latest())
	// Output:
	// <nil>
	// {ada:41 bob:20} true
}

// Each sensor has a Sender, and its readings keep their order.
func ExampleSenderInput() {
	ctx := context.Background()
	flow := dataflow.New()
	sensors, readings := dataflow.SenderInput[string, int](dataflow.At[Station](flow), "sensors")
	last := keyedstream.Reduce(readings, func(last *int, x int) { *last = x })
	out := singleton.Output(keyedsingleton.IntoSingleton(last), "last")
	app, _ := dataflow.Start(ctx, flow)

	var all sync.WaitGroup
	for _, name := range []string{"cellar", "roof"} {
		sensor := sensors.Sender(name)
		all.Go(func() {
			for x := range 3 {
				sensor.Send(ctx, len(name)*10+x)
			}
		})
	}
	all.Wait()
	fmt.Println(app.Stop(ctx))
	fmt.Println(out.Latest())
	// Output:
	// <nil>
	// {cellar:62 roof:42} true
}

// Each client numbers its orders. An input that has received a million of them only stores the last number.
func ExampleSequenced() {
	type order struct {
		Client string
		Number uint64
	}
	ctx := context.Background()
	flow := dataflow.New()
	counted := dataflow.Sequenced(func(o order) (string, uint64) { return o.Client, o.Number })
	in, orders := keyedsingleton.Input[order, string](dataflow.At[Station](flow), "orders", counted)
	keyedsingleton.InspectWithKey(orders, func(o order, what string) { fmt.Println(o.Client, o.Number, what) })
	app, _ := dataflow.Start(ctx, flow)

	fmt.Println(in.Put(ctx, order{"ann", 1}, "tea"))
	fmt.Println(in.Put(ctx, order{"ann", 2}, "cake"))
	fmt.Println(in.Put(ctx, order{"ann", 1}, "tea, again"))
	app.Stop(ctx)
	// Output:
	// ann 1 tea
	// <nil>
	// ann 2 cake
	// <nil>
	// dataflow: key is present already
}

// A client without an answer sends its order again. It counts as one order.
func ExampleRetriedInput() {
	ctx := context.Background()
	flow := dataflow.New()
	type order struct {
		ID    string
		Cents int
	}
	till, orders := dataflow.RetriedInput[order](dataflow.At[Station](flow), "orders")
	cents := dataflow.Map(dataflow.Unique(orders), func(o order) int { return o.Cents })
	sum := singleton.Output(dataflow.Sum(cents), "sum")
	app, _ := dataflow.Start(ctx, flow)

	for _, o := range []order{{"a", 250}, {"b", 100}, {"a", 250}} {
		till.Send(ctx, o)
	}
	fmt.Println(app.Stop(ctx))
	fmt.Println(sum.Latest())
	// Output:
	// <nil>
	// 350 true
}
