package keyedsingleton_test

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

func ExampleInputWithin() {
	ctx, flow := context.Background(), dataflow.New()
	in, orders := keyedsingleton.InputWithin[string, int](dataflow.At[server](flow), "orders", dataflow.Retain{Keys: 1}, "nobody repeats an order after two others")
	dataflow.Print(keyedsingleton.Entries(orders))
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		panic(err)
	}
	for i, k := range []string{"tea", "tea", "rice", "salt", "tea"} { // tea is forgotten when salt comes
		if err := in.Put(ctx, k, i); err != nil {
			fmt.Println(k, i, err)
		}
	}
	in.Close()
	app.Wait()
	// Output:
	// tea:0
	// tea 1 dataflow: key is present already
	// rice:2
	// salt:3
	// tea:4
}

func ExampleChanges() {
	ctx, flow := context.Background(), dataflow.New()
	in, votes := keyedstream.Input[string, int](dataflow.At[server](flow), "votes")
	totals := keyedsingleton.Filter(keyedstream.Sum(votes), func(n int) bool { return n > 0 })
	dataflow.Print(keyedstream.Entries(keyedsingleton.Changes(totals, "a page shows the newest total")))
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		panic(err)
	}
	for _, n := range []int{2, 3, -5} {
		in.Send(ctx, "ann", n)
	}
	in.Close()
	app.Wait()
	// Output:
	// ann:none→2
	// ann:2→5
	// ann:5→none
}
