package optional_test

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
)

// show prints a value that does not change.
func show[T any](x dataflow.Singleton[T, dataflow.Here, bounds.Bounded]) {
	dataflow.Print(singleton.IntoStream(x))
}

// An Auction is the location of the package example.
type Auction struct{ dataflow.Process }

// The price is the reserve until the first bid.
func Example() {
	ctx := context.Background()
	flow := dataflow.New()
	auction := dataflow.At[Auction](flow)
	in, bids := dataflow.Input[int](auction, "bids")
	price := optional.UnwrapOr(dataflow.Max(bids), singleton.Of(auction, 10))
	out := singleton.Output(price, "price")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		panic(err)
	}
	fmt.Println(out.Latest())
	in.Send(ctx, 15)
	in.Send(ctx, 12)
	app.Stop(ctx)
	fmt.Println(out.Latest())
	// Output:
	// 10 true
	// 15 true
}

func ExampleMap() {
	dataflow.Local(func(at dataflow.Here) {
		warmest := dataflow.Max(dataflow.Of(at, 19, 31, 24))
		dataflow.Print(optional.IntoStream(optional.Map(warmest, func(c int) string { return fmt.Sprint(c, " °C") })))
	})
	// Output:
	// 31 °C
}

func ExampleFilter() {
	dataflow.Local(func(at dataflow.Here) {
		frost := optional.Filter(dataflow.Min(dataflow.Of(at, 4, -2, 1)), func(c int) bool { return c < 0 })
		dataflow.Print(optional.IntoStream(frost))
	})
	// Output:
	// -2
}

func ExampleFilterMap() {
	dataflow.Local(func(at dataflow.Here) {
		users := map[int]string{7: "ann"}
		latest := optional.FilterMap(dataflow.Max(dataflow.Of(at, 3, 7)), func(id int) (string, bool) {
			name, ok := users[id]
			return name, ok
		})
		dataflow.Print(optional.IntoStream(latest))
	})
	// Output:
	// ann
}

func ExampleOr() {
	dataflow.Local(func(at dataflow.Here) {
		here, there := dataflow.Min(dataflow.Of[int](at)), dataflow.Min(dataflow.Of(at, 90, 75))
		dataflow.Print(optional.IntoStream(optional.Or(here, there)))
	})
	// Output:
	// 75
}

func ExampleUnwrapOr() {
	ctx := context.Background()
	flow := dataflow.New()
	house := dataflow.At[dataflow.Here](flow)
	in, bids := dataflow.Input[int](house, "bids")
	price := singleton.Output(optional.UnwrapOr(dataflow.Max(bids), singleton.Of(house, 50)), "price")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(price.Latest())
	in.SendBatch(ctx, []int{60, 85, 70})
	fmt.Println(price.Latest())
	app.Stop(ctx)
	// Output:
	// 50 true
	// 85 true
}

func ExampleZip() {
	dataflow.Local(func(at dataflow.Here) {
		prices := dataflow.Of(at, 12, 9, 15)
		dataflow.Print(optional.IntoStream(optional.Zip(dataflow.Min(prices), dataflow.Max(prices))))
	})
	// Output:
	// (9, 15)
}

func ExampleIntoSingleton() {
	dataflow.Local(func(at dataflow.Here) {
		show(optional.IntoSingleton(dataflow.Max(dataflow.Of[int](at))))
		show(optional.IntoSingleton(dataflow.Max(dataflow.Of(at, 3))))
	})
	// Output:
	// none
	// 3
}

func ExampleIsSome() {
	dataflow.Local(func(at dataflow.Here) {
		show(optional.IsSome(dataflow.Min(dataflow.Of(at, "ann"))))
	})
	// Output:
	// true
}

func ExampleIsNone() {
	dataflow.Local(func(at dataflow.Here) {
		show(optional.IsNone(dataflow.Min(dataflow.Of(at, "ann"))))
	})
	// Output:
	// false
}

func ExampleIntoStream() {
	dataflow.Local(func(at dataflow.Here) {
		none, some := dataflow.Max(dataflow.Of[int](at)), dataflow.Max(dataflow.Of(at, 5, 8))
		dataflow.Print(dataflow.Chain(optional.IntoStream(none), optional.IntoStream(some)))
	})
	// Output:
	// 8
}

func ExampleOutput() {
	ctx := context.Background()
	flow := dataflow.New()
	in, load := dataflow.Input[int](dataflow.At[dataflow.Here](flow), "load")
	current := dataflow.Fold(load, func() int { return 0 }, func(last *int, x int) { *last = x })
	alarm := optional.Output(singleton.Filter(current, func(x int) bool { return x > 90 }), "alarm")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, x := range []int{95, 60} {
		in.Send(ctx, x) // the location is idle, so that Send runs it
		fmt.Println(alarm.Latest())
	}
	app.Stop(ctx)
	// Output:
	// 95 true
	// 0 false
}
