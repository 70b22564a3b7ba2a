package keyedstream_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

func ExampleFlatMap() {
	dataflow.Local(func(at dataflow.Here) {
		cups := keyedstream.FlatMap(sales(at), func(n int, emit func(string)) {
			for i := range min(n, 2) {
				emit(fmt.Sprint("cup ", i+1))
			}
		})
		dataflow.Print(keyedstream.Entries(cups))
	})
	// Unordered output:
	// tea:cup 1
	// tea:cup 2
	// milk:cup 1
	// tea:cup 1
	// tea:cup 2
}

func ExampleRekey() {
	dataflow.Local(func(at dataflow.Here) {
		bySize := keyedstream.Rekey(sales(at), func(_ string, n int) string {
			if n > 3 {
				return "big"
			}
			return "small"
		})
		dataflow.Print(keyedsingleton.Entries(keyedstream.Count(bySize)))
	})
	// Unordered output:
	// big:2
	// small:1
}

// Under a finer key the values keep their order, so that they can be numbered.
func ExamplePrefixKey() {
	dataflow.Local(func(at dataflow.Here) {
		parity := keyedstream.PrefixKey(sales(at), func(_ string, n int) string {
			return []string{"even", "odd"}[n%2]
		})
		dataflow.Print(keyedstream.Entries(keyedstream.Enumerate(parity)))
	})
	// Unordered output:
	// (even, tea):(0, 4)
	// (odd, milk):(0, 1)
	// (odd, tea):(0, 9)
}

func ExampleMergeOrdered() {
	dataflow.Local(func(at dataflow.Here) {
		till, sold := keyedstream.Input[string, int](at, "till")
		web, ordered := keyedstream.Input[string, int](at, "web")
		all := keyedstream.MergeOrdered(sold, ordered, "stock is given out in the order in which it is asked for")
		served := keyedstream.Scan(all, func() int { return 10 }, func(left *int, n int, emit func(int)) {
			if n <= *left {
				*left -= n
				emit(n)
			}
		})
		dataflow.Print(keyedstream.Entries(served))

		till.Send(context.Background(), "tea", 6)
		web.Send(context.Background(), "tea", 5) // not enough is left
		till.Send(context.Background(), "tea", 4)
	})
	// Output:
	// tea:6
	// tea:4
}

func ExampleChain() {
	dataflow.Local(func(at dataflow.Here) {
		opening := dataflow.Keyed(dataflow.Of(at, sale{Key: "tea", Value: 100}))
		in, moves := keyedstream.Input[string, int](at, "moves")
		// The opening balance comes before all other values.
		dataflow.Print(keyedstream.Entries(keyedstream.Chain(opening, moves)))

		in.Send(context.Background(), "tea", -4)
		in.Send(context.Background(), "tea", -9)
	})
	// Output:
	// tea:100
	// tea:-4
	// tea:-9
}

func ExampleJoin() {
	dataflow.Local(func(at dataflow.Here) {
		buy, buyers := keyedstream.Input[string, string](at, "buyers")
		sell, sellers := keyedstream.Input[string, string](at, "sellers")
		dataflow.Print(keyedstream.Entries(keyedstream.Join(buyers, sellers)))

		buy.Send(context.Background(), "tea", "ann")
		sell.Send(context.Background(), "tea", "dan")
		sell.Send(context.Background(), "rum", "eve") // rum has no buyer
		buy.Send(context.Background(), "tea", "bob")
	})
	// Unordered output:
	// tea:(ann, dan)
	// tea:(bob, dan)
}

func ExampleAntiJoin() {
	dataflow.Local(func(at dataflow.Here) {
		gone := dataflow.Of(at, "milk", "rum")
		dataflow.Print(keyedstream.Entries(keyedstream.AntiJoin(sales(at), gone)))
	})
	// Unordered output:
	// tea:4
	// tea:9
}

func ExampleCrossSingleton() {
	dataflow.Local(func(at dataflow.Here) {
		price := singleton.Of(at, 3)
		priced := keyedstream.CrossSingleton(sales(at), price)
		total := keyedstream.Map(priced, func(p dataflow.Pair[int, int]) int { return p.First * p.Second })
		dataflow.Print(keyedstream.Entries(total))
	})
	// Unordered output:
	// tea:12
	// milk:3
	// tea:27
}

func ExampleKeys() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedstream.Keys(sales(at)))
	})
	// Unordered output:
	// tea
	// milk
}

func ExampleUnique() {
	dataflow.Local(func(at dataflow.Here) {
		in, seen := keyedstream.Input[string, string](at, "seen")
		dataflow.Print(keyedstream.Entries(keyedstream.Unique(seen)))

		for _, s := range []string{"gate ann", "gate ann", "hall ann", "gate bob", "gate ann"} {
			where, who, _ := strings.Cut(s, " ")
			in.Send(context.Background(), where, who)
		}
	})
	// Unordered output:
	// gate:ann
	// hall:ann
	// gate:bob
}

func ExampleLimit() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedstream.Entries(keyedstream.Limit(sales(at), 1)))
	})
	// Unordered output:
	// tea:4
	// milk:1
}

func ExampleEnumerate() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedstream.Entries(keyedstream.Enumerate(sales(at))))
	})
	// Unordered output:
	// tea:(0, 4)
	// milk:(0, 1)
	// tea:(1, 9)
}

func ExamplePartition() {
	dataflow.Local(func(at dataflow.Here) {
		many, few := keyedstream.Partition(sales(at), func(n int) bool { return n >= 5 })
		dataflow.Print(keyedstream.Entries(keyedstream.Map(many, func(n int) string { return fmt.Sprint("by van ", n) })))
		dataflow.Print(keyedstream.Entries(few))
	})
	// Unordered output:
	// tea:by van 9
	// tea:4
	// milk:1
}

func ExampleTryMap() {
	dataflow.Local(func(at dataflow.Here) {
		shares, failed := keyedstream.TryMap(sales(at), func(n int) (int, error) {
			if n%3 != 0 {
				return 0, fmt.Errorf("cannot be divided by three")
			}
			return n / 3, nil
		})
		dataflow.Print(keyedstream.Entries(shares))
		dataflow.Print(keyedstream.Entries(failed))
	})
	// Unordered output:
	// tea:3
	// tea:4: cannot be divided by three
	// milk:1: cannot be divided by three
}
