package keyedstream_test

import (
	"fmt"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/singleton"
)

// A total that is merged from several sources and only grows crosses a limit once.
func ExampleFoldCommutativeGrowing() {
	dataflow.Local(func(at dataflow.Here) {
		all := keyedstream.Merge(sales(at), sales(at)) // in no order
		sold := keyedstream.FoldCommutativeGrowing(all, func() int { return 0 },
			func(sum *int, n int) { *sum += n },
			"addition is commutative, and nothing negative is sold")
		dataflow.Print(keyedsingleton.Entries(keyedsingleton.ThresholdUniform(sold, 20)))
	})
	// Output:
	// tea:20
}

func ExampleGet() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(keyedstream.Get(sales(at), singleton.Of(at, "tea")))
	})
	// Output:
	// 4
	// 9
}

func ExampleSort() {
	dataflow.Local(func(at dataflow.Here) {
		both := keyedstream.Merge(sales(at), keyedstream.Map(sales(at), func(n int) int { return 10 - n }))
		for _, name := range []string{"tea", "milk"} {
			dataflow.Print(dataflow.Map(keyedstream.Get(keyedstream.Sort(both), singleton.Of(at, name)), func(n int) string {
				return fmt.Sprint(name, " ", n)
			}))
		}
	})
	// Output:
	// tea 1
	// tea 4
	// tea 6
	// tea 9
	// milk 1
	// milk 9
}

func ExampleSortFunc() {
	dataflow.Local(func(at dataflow.Here) {
		type order struct {
			ID   string
			Size int
		}
		orders := dataflow.WeakenOrder(dataflow.Of(at, order{"b7", 3}, order{"a2", 3}, order{"c1", 8}))
		byShop := dataflow.KeyBy(orders, func(order) string { return "shop" })
		sorted := keyedstream.SortFunc(byShop, func(a, b order) int {
			if a.Size != b.Size {
				return b.Size - a.Size
			}
			return strings.Compare(a.ID, b.ID)
		}, "no two orders have one ID")
		dataflow.Print(keyedstream.Get(sorted, singleton.Of(at, "shop")))
	})
	// Output:
	// {c1 8}
	// {a2 3}
	// {b7 3}
}

func ExampleLookupKeyedSingleton() {
	dataflow.Local(func(at dataflow.Here) {
		baskets := dataflow.Keyed(dataflow.Of(at, dataflow.Entry[string, string]{Key: "ann", Value: "tea"},
			dataflow.Entry[string, string]{Key: "ann", Value: "rum"}, dataflow.Entry[string, string]{Key: "bob", Value: "tea"}))
		prices := keyedstream.First(dataflow.Keyed(dataflow.Of(at, dataflow.Entry[string, int]{Key: "tea", Value: 3})))
		dataflow.Print(keyedstream.Entries(keyedstream.LookupKeyedSingleton(baskets, prices)))
	})
	// Unordered output:
	// ann:(tea, 3)
	// ann:(rum, none)
	// bob:(tea, 3)
}

func ExampleLookupKeyedStream() {
	dataflow.Local(func(at dataflow.Here) {
		wishes := dataflow.Keyed(dataflow.Of(at, dataflow.Entry[string, string]{Key: "ann", Value: "tea"},
			dataflow.Entry[string, string]{Key: "ann", Value: "rum"}))
		dataflow.Print(keyedstream.Entries(keyedstream.LookupKeyedStream(wishes, sales(at))))
	})
	// Unordered output:
	// ann:(tea, 4)
	// ann:(tea, 9)
	// ann:(rum, none)
}
