package keyedstream_test

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Office and Counter are the locations to which the examples send sales.
type (
	Office  struct{ dataflow.Process }
	Counter struct{ dataflow.Process }
)

func ExampleSend() {
	ctx := context.Background()
	flow := dataflow.New()
	till, sold := keyedstream.Input[string, int](dataflow.At[Shop](flow), "till")
	first := keyedsingleton.Output(keyedstream.First(keyedstream.Send(sold, dataflow.At[Office](flow))), "first")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	till.Send(ctx, "tea", 4)
	till.Send(ctx, "tea", 9)
	fmt.Println(first.Await(ctx, "tea"))
	fmt.Println(app.Stop(ctx))
	// Output:
	// 4 <nil>
	// <nil>
}

func ExampleDivide() {
	ctx := context.Background()
	flow := dataflow.New()
	till, sold := keyedstream.Input[string, int](dataflow.At[Shop](flow), "till")
	members := dataflow.Members[Counter](flow, 3)
	var outs []*dataflow.OutputPort[dataflow.Entry[string, int]]
	for _, part := range keyedstream.Divide(sold, members) {
		outs = append(outs, keyedstream.Output(part, "part"))
	}

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, price := range []int{4, 9, 5} {
		till.Send(ctx, "tea", price)
	}
	till.Close()
	for _, out := range outs { // one member has all sales of tea
		for sale := range out.All(ctx) {
			fmt.Println(sale)
		}
	}
	fmt.Println(app.Wait())
	// Output:
	// tea:4
	// tea:9
	// tea:5
	// <nil>
}
