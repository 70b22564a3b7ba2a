package keyedstream_test

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// A Shop is the location of some examples.
type Shop struct{ dataflow.Process }

type sale = dataflow.Entry[string, int]

func sales(at dataflow.Here) dataflow.KeyedStream[string, int, dataflow.Here, bounded, dataflow.TotalOrder, dataflow.ExactlyOnce] {
	return dataflow.Keyed(dataflow.Of(at, sale{Key: "tea", Value: 4}, sale{Key: "milk", Value: 1}, sale{Key: "tea", Value: 9}))
}

func ExampleInput() {
	dataflow.Local(func(at dataflow.Here) {
		till, sold := keyedstream.Input[string, int](at, "till")
		dataflow.Print(keyedstream.Entries(sold))

		till.Send(context.Background(), "tea", 4)
		till.Send(context.Background(), "milk", 1)
	})
	// Unordered output:
	// tea:4
	// milk:1
}

// Votes come from anywhere. The number of votes for a proposal does not depend on their order.
func ExampleSharedInput() {
	ctx := context.Background()
	flow := dataflow.New()
	votes, cast := keyedstream.SharedInput[string, string](dataflow.At[Shop](flow), "votes")
	count := singleton.Output(keyedsingleton.IntoSingleton(keyedstream.Count(cast)), "count")
	app, _ := dataflow.Start(ctx, flow)

	var voters sync.WaitGroup
	for _, name := range []string{"ada", "grace", "edsger"} {
		voters.Go(func() { votes.Send(ctx, "longer lunch", name) })
	}
	voters.Wait()
	app.Stop(ctx)
	fmt.Println(count.Latest())
	// Output:
	// {longer lunch:3} true
}

// A replica that receives no answer votes again. Its vote counts once.
func ExampleRetriedInput() {
	ctx := context.Background()
	flow := dataflow.New()
	votes, cast := keyedstream.RetriedInput[string, string](dataflow.At[Shop](flow), "votes")
	count := singleton.Output(keyedsingleton.IntoSingleton(keyedstream.Count(keyedstream.Unique(cast))), "count")
	app, _ := dataflow.Start(ctx, flow)

	for _, name := range []string{"berlin", "lisbon", "berlin"} {
		votes.Send(ctx, "add a node", name)
	}
	app.Stop(ctx)
	fmt.Println(count.Latest())
	// Output:
	// {add a node:2} true
}

func ExampleOutput() {
	ctx := context.Background()
	flow := dataflow.New()
	till, sold := keyedstream.Input[string, int](dataflow.At[Shop](flow), "till")
	receipts := keyedstream.Output(sold, "receipts")
	dataflow.Start(ctx, flow)

	till.Send(ctx, "tea", 4)
	till.Send(ctx, "tea", 9)
	till.Close()
	for e := range receipts.All(ctx) {
		fmt.Println(e.Key, e.Value)
	}
	// Output:
	// tea 4
	// tea 9
}

func ExampleMap() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedstream.Entries(keyedstream.Map(sales(at), func(n int) string { return strings.Repeat("*", n) })))
	})
	// Unordered output:
	// tea:****
	// milk:*
	// tea:*********
}

func ExampleMapWithKey() {
	dataflow.Local(func(at dataflow.Here) {
		lines := keyedstream.MapWithKey(sales(at), func(what string, n int) string { return fmt.Sprint(n, " x ", what) })
		dataflow.Print(keyedstream.Values(lines))
	})
	// Unordered output:
	// 4 x tea
	// 1 x milk
	// 9 x tea
}

func ExampleFilter() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedstream.Entries(keyedstream.Filter(sales(at), func(n int) bool { return n >= 4 })))
	})
	// Unordered output:
	// tea:4
	// tea:9
}

func ExampleFilterMap() {
	dataflow.Local(func(at dataflow.Here) {
		dozens := keyedstream.FilterMap(sales(at), func(n int) (string, bool) { return "bulk discount", n > 8 })
		dataflow.Print(keyedstream.Entries(dozens))
	})
	// Output:
	// tea:bulk discount
}

func ExampleMerge() {
	dataflow.Local(func(at dataflow.Here) {
		online := dataflow.Keyed(dataflow.Of(at, sale{Key: "tea", Value: 20}))
		all := keyedstream.Merge(sales(at), online)
		dataflow.Print(keyedsingleton.Entries(keyedstream.Count(all)))
	})
	// Unordered output:
	// tea:3
	// milk:1
}

func ExampleAssumeOrder() {
	dataflow.Local(func(at dataflow.Here) {
		online := dataflow.Keyed(dataflow.Of(at, sale{Key: "tea", Value: 20}))
		all := keyedstream.AssumeOrder(keyedstream.Merge(sales(at), online), "a sum is the same in any order")
		sum := keyedstream.Fold(all, func() int { return 0 }, func(sum *int, n int) { *sum += n })
		dataflow.Print(keyedsingleton.Entries(sum))
	})
	// Unordered output:
	// tea:33
	// milk:1
}

func ExampleEntries() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedstream.Entries(sales(at)))
	})
	// Unordered output:
	// tea:4
	// milk:1
	// tea:9
}

func ExampleValues() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedstream.Values(sales(at)))
	})
	// Unordered output:
	// 4
	// 1
	// 9
}

func ExampleFirst() {
	dataflow.Local(func(at dataflow.Here) {
		in, answers := keyedstream.Input[string, string](at, "answers")
		dataflow.Print(keyedsingleton.Entries(keyedstream.First(answers)))

		// Three replicas answer. The first answer counts, and an entry never changes.
		for _, a := range []string{"q1 north", "q1 south", "q2 south", "q1 east"} {
			question, replica, _ := strings.Cut(a, " ")
			in.Send(context.Background(), question, replica)
		}
	})
	// Unordered output:
	// q1:north
	// q2:south
}

func ExampleFoldEarlyStop() {
	dataflow.Local(func(at dataflow.Here) {
		in, votes := keyedstream.Input[string, string](at, "votes")
		quorum := keyedstream.FoldEarlyStop(votes,
			func() []string { return nil },
			func(by *[]string, voter string) (done bool) {
				*by = append(*by, voter)
				return len(*by) == 2
			})
		dataflow.Print(keyedsingleton.Entries(quorum))

		// The second motion never has a quorum and never appears.
		for _, v := range []string{"m1 ann", "m2 ann", "m1 bob", "m1 cid"} {
			motion, voter, _ := strings.Cut(v, " ")
			in.Send(context.Background(), motion, voter)
		}
	})
	// Output:
	// m1:[ann bob]
}

func ExampleFold() {
	dataflow.Local(func(at dataflow.Here) {
		most := keyedstream.Fold(sales(at), func() int { return 0 }, func(most *int, n int) { *most = max(*most, n) })
		dataflow.Print(keyedsingleton.Entries(most))
	})
	// Unordered output:
	// tea:9
	// milk:1
}

func ExampleCount() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedsingleton.Entries(keyedstream.Count(sales(at))))
	})
	// Unordered output:
	// tea:2
	// milk:1
}

func ExampleScan() {
	dataflow.Local(func(at dataflow.Here) {
		in, amounts := keyedstream.Input[string, int](at, "amounts")
		refused := keyedstream.Scan(amounts, func() int { return 100 }, func(balance *int, amount int, emit func(string)) {
			if amount > *balance {
				emit(fmt.Sprintf("%d refused, %d left", amount, *balance))
				return
			}
			*balance -= amount
		})
		dataflow.Print(keyedstream.Entries(refused))

		in.Send(context.Background(), "ann", 70)
		in.Send(context.Background(), "ann", 50)
		in.Send(context.Background(), "bob", 50)
		in.Send(context.Background(), "ann", 30)
		in.Send(context.Background(), "ann", 1)
	})
	// Unordered output:
	// ann:50 refused, 30 left
	// ann:1 refused, 0 left
}
