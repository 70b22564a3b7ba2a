package slice_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// A Market is the location of some examples.
type Market struct{ dataflow.Process }

// Each order is quoted once, at the price when it is handled.
func Example() {
	ctx := context.Background()
	flow := dataflow.New()
	market := dataflow.At[Market](flow)
	setPrice, prices := dataflow.Input[int](market, "prices")
	in, orders := keyedsingleton.Input[string, int](market, "orders")
	price := dataflow.Fold(prices, func() int { return 10 }, func(now *int, p int) { *now = p })

	tick := slice.At(market)
	fresh := slice.BatchEntries(tick, orders, "each order is quoted alone, once")
	now := slice.Snapshot(tick, price, "an order is quoted at the price when it is handled")
	quotes := slice.EmitEntries(keyedsingleton.Map(keyedsingleton.CrossSingleton(fresh, now),
		func(p dataflow.Pair[int, int]) int { return p.First * p.Second }))
	out := keyedsingleton.Output(quotes, "quotes")

	app, _ := dataflow.Start(ctx, flow)
	in.Put(ctx, "ann", 3)
	setPrice.Send(ctx, 12)
	in.Put(ctx, "bob", 3)
	fmt.Println(out.Await(ctx, "ann"))
	fmt.Println(out.Await(ctx, "bob"))
	app.Stop(ctx)
	// Output:
	// 30 <nil>
	// 36 <nil>
}

func ExampleAt() {
	dataflow.Local(func(at dataflow.Here) {
		in, words := dataflow.Input[string](at, "words")
		tick := slice.At(at)
		batch := slice.Batch(tick, words, "only the sum of the lengths is used")
		// In a slice, an aggregate is complete and starts afresh in every run.
		dataflow.Print(slice.Emit(singleton.IntoStream(dataflow.Count(batch))))

		in.SendBatch(context.Background(), []string{"what", "waits", "is", "one", "batch"})
	})
	// Output:
	// 5
}

func ExampleBatch() {
	dataflow.Local(func(at dataflow.Here) {
		in, rows := dataflow.Input[string](at, "rows")
		batch := slice.Batch(slice.At(at), rows, "rows are written the same in one insert or many")
		insert := dataflow.Fold(batch, func() []string { return nil }, func(all *[]string, row string) { *all = append(*all, row) })
		statement := singleton.Map(insert, func(all []string) string { return "insert " + strings.Join(all, ", ") })
		dataflow.Print(slice.Emit(singleton.IntoStream(statement)))

		in.SendBatch(context.Background(), []string{"a", "b"})
	})
	// Output:
	// insert a, b
}

func ExampleBatchKeyed() {
	dataflow.Local(func(at dataflow.Here) {
		in, clicks := keyedstream.Input[string, int](at, "clicks")
		batch := slice.BatchKeyed(slice.At(at), clicks, "counts of batches are added up by whoever reads them")
		counts := keyedsingleton.IntoKeyedStream(keyedstream.Count(batch))
		dataflow.Print(keyedstream.Entries(slice.EmitKeyed(counts)))

		for i, page := range []string{"home", "cart", "home"} {
			in.Send(context.Background(), page, i)
		}
	})
	// Unordered output:
	// home:2
	// cart:1
}

func ExampleBatchEntries() {
	dataflow.Local(func(at dataflow.Here) {
		in, requests := keyedsingleton.Input[string, string](at, "requests")
		fresh := slice.BatchEntries(slice.At(at), requests, "each request is handled alone")
		dataflow.Print(keyedsingleton.Entries(slice.EmitEntries(keyedsingleton.Map(fresh, strings.ToUpper))))

		in.Put(context.Background(), "r1", "hello")
		in.Put(context.Background(), "r2", "goodbye")
	})
	// Unordered output:
	// r1:HELLO
	// r2:GOODBYE
}

func ExampleSnapshot() {
	dataflow.Local(func(at dataflow.Here) {
		in, guests := dataflow.Input[string](at, "guests")
		tick := slice.At(at)
		number := slice.Snapshot(tick, dataflow.Count(guests), "a sign at the door may skip a number")
		dataflow.Print(slice.Emit(singleton.IntoStream(number)))

		// One step takes all guests. The slice then sees the last number.
		in.SendBatch(context.Background(), []string{"ann", "bob", "cid"})
	})
	// Output:
	// 0
	// 3
}

func ExampleSnapshotEntries() {
	dataflow.Local(func(at dataflow.Here) {
		in, sold := keyedstream.Input[string, int](at, "sold")
		ask, questions := keyedsingleton.Input[string, string](at, "questions")
		total := keyedstream.Fold(sold, func() int { return 0 }, func(sum *int, n int) { *sum += n })
		tick := slice.At(at)
		stock := slice.SnapshotEntries(tick, total, "an answer is of the moment when it is given")
		asked := slice.BatchEntries(tick, questions, "each question is answered alone")
		dataflow.Print(keyedsingleton.Entries(slice.EmitEntries(keyedsingleton.LookupKeyedSingleton(asked, stock))))

		in.Send(context.Background(), "tea", 4)
		in.Send(context.Background(), "tea", 9)
		ask.Put(context.Background(), "q1", "tea")
		ask.Put(context.Background(), "q2", "rum")
	})
	// Unordered output:
	// q1:(tea, 13)
	// q2:(rum, none)
}

func ExampleState() {
	ctx := context.Background()
	flow := dataflow.New()
	in, words := dataflow.Input[string](dataflow.At[Market](flow), "words")
	tick := slice.At(dataflow.At[Market](flow))
	count := dataflow.Count(slice.Batch(tick, words, "only the running total leaves the slice"))
	before, keep := slice.State(tick, 0)
	after := singleton.Map(singleton.Zip(before, count), func(p dataflow.Pair[int, int]) int { return p.First + p.Second })
	keep(after)
	dataflow.Print(slice.Emit(singleton.IntoStream(after)))

	app, _ := dataflow.Start(ctx, flow)
	in.Send(ctx, "one") // an idle location runs at once: one word, one run
	in.Send(ctx, "two")
	in.Send(ctx, "three")
	app.Stop(ctx)
	// Output:
	// 1
	// 2
	// 3
}

func ExampleEmit() {
	dataflow.Local(func(at dataflow.Here) {
		in, numbers := dataflow.Input[int](at, "numbers")
		squares := dataflow.Map(slice.Batch(slice.At(at), numbers, "each is squared alone"), func(x int) int { return x * x })
		dataflow.Print(slice.Emit(squares)) // in order, however they were batched

		in.SendBatch(context.Background(), []int{3, 1, 2})
	})
	// Output:
	// 9
	// 1
	// 4
}

func ExampleEmitKeyed() {
	dataflow.Local(func(at dataflow.Here) {
		in, marks := keyedstream.Input[string, int](at, "marks")
		batch := slice.BatchKeyed(slice.At(at), marks, "each is judged alone")
		good := slice.EmitKeyed(keyedstream.Filter(batch, func(mark int) bool { return mark <= 2 }))
		dataflow.Print(keyedsingleton.Entries(keyedstream.First(good)))

		in.Send(context.Background(), "ann", 3)
		in.Send(context.Background(), "ann", 2)
		in.Send(context.Background(), "ann", 1)
	})
	// Output:
	// ann:2
}

func ExampleEmitEntries() {
	dataflow.Local(func(at dataflow.Here) {
		in, seats := keyedsingleton.Input[int, string](at, "seats")
		tick := slice.At(at)
		fresh := slice.BatchEntries(tick, seats, "each booking is confirmed alone")
		confirmed := slice.EmitEntries(keyedsingleton.MapWithKey(fresh, func(seat int, who string) string {
			return fmt.Sprintf("seat %d for %s", seat, who)
		}))
		dataflow.Print(keyedsingleton.Values(confirmed)) // outside, each key has one value again

		in.Put(context.Background(), 12, "ann")
		in.Put(context.Background(), 14, "bob")
	})
	// Unordered output:
	// seat 12 for ann
	// seat 14 for bob
}

func ExampleEmitRetained() {
	dataflow.Local(func(at dataflow.Here) {
		in, requests := keyedstream.Input[string, int](at, "requests")
		recent := keyedstream.FirstWithin(requests, keyedstream.Retain{Keys: 1}, "an old request may come again")
		tick := slice.At(at)
		fresh := slice.BatchEntries(tick, recent, "each request is answered alone")
		answers := slice.EmitRetained(keyedsingleton.Map(fresh, func(n int) string { return strings.Repeat("*", n) }))
		dataflow.Print(keyedsingleton.Entries(answers)) // one for each life of a key

		for i, k := range []string{"a", "b", "c", "a"} { // a is forgotten when c comes
			in.Send(context.Background(), k, i+1)
		}
	})
	// Unordered output:
	// a:*
	// b:**
	// c:***
	// a:****
}
