package slice_test

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/bounds"
	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// An order waits until it is paid, for any number of runs of the slice.
func ExampleStateEntries() {
	ctx := context.Background()
	flow := dataflow.New()
	market := dataflow.At[Market](flow)
	place, orders := keyedsingleton.Input[string, string](market, "orders")
	pay, payments := keyedsingleton.Input[string, int](market, "payments")

	tick := slice.At(market)
	fresh := slice.BatchEntries(tick, orders, "an order waits until it is paid")
	paid := slice.BatchEntries(tick, payments, "a payment waits until there is an order")
	open, keepOpen := slice.StateEntries(tick, dataflow.Entry[string, string]{Key: "order 0", Value: "salt"})
	unused, keepUnused := slice.StateEntries[string, int](tick)

	orderNow, paidNow := together(open, fresh), together(unused, paid)
	settled := keyedsingleton.JoinKeyedSingleton(orderNow, paidNow)
	keepOpen(keyedsingleton.WithoutKeys(orderNow, keyedsingleton.Keys(settled)))
	keepUnused(keyedsingleton.WithoutKeys(paidNow, keyedsingleton.Keys(settled)))
	dataflow.Print(slice.Emit(keyedsingleton.Entries(settled)))

	app, _ := dataflow.Start(ctx, flow)
	place.Put(ctx, "order 1", "tea")
	pay.Put(ctx, "order 2", 7) // its order comes later
	pay.Put(ctx, "order 1", 5)
	place.Put(ctx, "order 2", "rum")
	pay.Put(ctx, "order 0", 1)
	app.Stop(ctx)
	// Output:
	// order 1:(tea, 5)
	// order 2:(rum, 7)
	// order 0:(salt, 1)
}

// together returns the entries of a and b.
func together[V any](a, b dataflow.KeyedSingleton[string, V, dataflow.Tick[Market], bounds.Bounded]) dataflow.KeyedSingleton[string, V, dataflow.Tick[Market], bounds.Bounded] {
	return keyedstream.First(keyedstream.Chain(keyedsingleton.IntoKeyedStream(a), keyedsingleton.IntoKeyedStream(b)))
}

// A new price does not run the slice, so it causes no new quotes.
func ExamplePassive() {
	ctx := context.Background()
	flow := dataflow.New()
	market := dataflow.At[Market](flow)
	setPrice, prices := dataflow.Input[int](market, "prices")
	in, orders := dataflow.Input[string](market, "orders")
	price := dataflow.Fold(prices, func() int { return 10 }, func(now *int, p int) { *now = p })

	tick := slice.At(market)
	now := slice.Passive(slice.Snapshot(tick, price, "an order is quoted at the price when it is handled"))
	fresh := dataflow.Count(slice.Batch(tick, orders, "only how many there are is shown"))
	dataflow.Print(slice.Emit(singleton.IntoStream(singleton.Zip(fresh, now))))

	app, _ := dataflow.Start(ctx, flow)
	setPrice.Send(ctx, 11)
	setPrice.Send(ctx, 12)
	in.Send(ctx, "tea")
	app.Stop(ctx)
	// Output:
	// (1, 12)
}

func ExampleLatest() {
	ctx := context.Background()
	flow := dataflow.New()
	market := dataflow.At[Market](flow)
	in, orders := dataflow.Input[string](market, "orders")
	size := dataflow.Count(slice.Batch(slice.At(market), orders, "a gauge of how much comes at once"))
	out := singleton.Output(slice.Latest(size, -1), "size of the newest batch")

	app, _ := dataflow.Start(ctx, flow)
	fmt.Println(out.Latest())
	in.SendBatch(ctx, []string{"tea", "rum"})
	fmt.Println(out.Latest())
	in.Send(ctx, "salt")
	fmt.Println(out.Latest())
	app.Stop(ctx)
	// Output:
	// -1 true
	// 2 true
	// 1 true
}

func ExampleLatestOptional() {
	ctx := context.Background()
	flow := dataflow.New()
	market := dataflow.At[Market](flow)
	in, prices := dataflow.Input[int](market, "prices")
	best := dataflow.Max(slice.Batch(slice.At(market), prices, "the best of what came at once"))
	out := optional.Output(slice.LatestOptional(best), "best of the newest batch")

	app, _ := dataflow.Start(ctx, flow)
	fmt.Println(out.Latest())
	in.SendBatch(ctx, []int{7, 12, 9})
	fmt.Println(out.Latest())
	app.Stop(ctx)
	// Output:
	// 0 false
	// 12 true
}

func ExampleSnapshotOptional() {
	ctx := context.Background()
	flow := dataflow.New()
	market := dataflow.At[Market](flow)
	in, bids := dataflow.Input[int](market, "bids")
	ask, questions := dataflow.Input[string](market, "questions")
	tick := slice.At(market)
	best := slice.Passive(slice.SnapshotOptional(tick, dataflow.Max(bids), "an answer is of the moment when it is given"))
	asked := dataflow.Count(slice.Batch(tick, questions, "one answer for all who ask at once"))
	dataflow.Print(slice.Emit(singleton.IntoStream(singleton.Zip(asked, optional.IntoSingleton(best)))))

	app, _ := dataflow.Start(ctx, flow)
	ask.Send(ctx, "what is bid?")
	in.Send(ctx, 7)
	in.Send(ctx, 5)
	ask.Send(ctx, "and now?")
	app.Stop(ctx)
	// Output:
	// (1, none)
	// (1, 7)
}
