package dataflow_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
)

func ExampleReduce() {
	dataflow.Local(func(at dataflow.Here) {
		legs := dataflow.Of(at, "Oslo–Bergen", "Bergen–Stavanger", "Stavanger–Oslo")
		route := dataflow.Reduce(legs, func(route *string, leg string) {
			_, to, _ := strings.Cut(leg, "–")
			*route += "–" + to
		})
		dataflow.Print(optional.IntoStream(route))
	})
	// Output:
	// Oslo–Bergen–Stavanger–Oslo
}

func ExampleFoldGrowing() {
	dataflow.Local(func(at dataflow.Here) {
		in, donations := dataflow.Input[uint32](at, "donations")
		add := func(sum *uint64, d uint32) { *sum += uint64(d) }
		raised := dataflow.FoldGrowing(donations, func() uint64 { return 0 }, add, "no donation is negative")
		dataflow.Print(dataflow.Map(singleton.Threshold(raised, 1000), func(n uint64) string {
			return fmt.Sprint("the roof can be repaired: ", n, " raised")
		}))

		in.SendBatch(context.Background(), []uint32{400, 550, 300, 20})
	})
	// Output:
	// the roof can be repaired: 1000 raised
}

func ExampleFoldCommutative() {
	dataflow.Local(func(at dataflow.Here) {
		north, south := dataflow.Of(at, "elk", "fox"), dataflow.Of(at, "fox", "wolf")
		seen := dataflow.FoldCommutative(dataflow.Merge(north, south),
			func() map[string]bool { return make(map[string]bool) },
			func(seen *map[string]bool, animal string) { (*seen)[animal] = true },
			"a set forgets in which order it was filled")
		show(singleton.Map(seen, func(seen map[string]bool) string { return fmt.Sprint(seen) }))
	})
	// Output:
	// map[elk:true fox:true wolf:true]
}

func ExampleSum() {
	dataflow.Local(func(at dataflow.Here) {
		morning, evening := dataflow.Of(at, 12, 7), dataflow.Of(at, 30)
		show(dataflow.Sum(dataflow.Merge(morning, evening)))
	})
	// Output:
	// 49
}

func ExampleMin() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(optional.IntoStream(dataflow.Min(dataflow.Of(at, 14.5, -3.2, 8))))
	})
	// Output:
	// -3.2
}

func ExampleMax() {
	dataflow.Local(func(at dataflow.Here) {
		none := dataflow.Max(dataflow.Of[int](at))
		show(optional.UnwrapOr(none, singleton.Of(at, 100)))
		show(optional.UnwrapOr(dataflow.Max(dataflow.Of(at, 120, 180, 150)), singleton.Of(at, 100)))
	})
	// Output:
	// 100
	// 180
}

// A high-water mark of merged readings. Their order does not matter, and the mark never
// falls.
func ExampleFoldCommutativeGrowing() {
	dataflow.Local(func(at dataflow.Here) {
		readings := dataflow.Merge(dataflow.Of(at, 3, 9), dataflow.Of(at, 12, 5)) // without an order
		mark := dataflow.FoldCommutativeGrowing(readings, func() int { return 0 },
			func(highest *int, x int) { *highest = max(*highest, x) },
			"a maximum is the same in any order, and no reading makes it smaller")
		dataflow.Print(singleton.Threshold(mark, 10))
	})
	// Output:
	// 10
}
