package dataflow_test

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/slice"
)

func ExampleCycle() {
	dataflow.Local(func(at dataflow.Here) {
		in, numbers := dataflow.Input[int](at, "numbers")
		loop, again := dataflow.Cycle[int, dataflow.NoOrder](at, "again")
		all := dataflow.Merge(numbers, again)

		// A number goes around until it is 1: it is halved if it is even, and otherwise
		// multiplied by three and incremented.
		tick := slice.At(at)
		more := dataflow.Filter(slice.Batch(tick, all, "each number goes its own way"), func(n int) bool { return n != 1 })
		loop.Complete(slice.Emit(dataflow.Map(more, func(n int) int {
			if n%2 == 0 {
				return n / 2
			}
			return 3*n + 1
		})))
		dataflow.Print(all)

		in.Send(context.Background(), 6)
	})
	// Unordered output:
	// 6
	// 3
	// 10
	// 5
	// 16
	// 8
	// 4
	// 2
	// 1
}

func ExampleInterval() {
	ctx := context.Background()
	flow := dataflow.New()
	station := dataflow.At[Station](flow)
	beats := dataflow.Interval(station, time.Millisecond, "a beat says only that the station lives")
	out := dataflow.Output(dataflow.Map(beats, func(time.Duration) string { return "alive" }), "beats")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	for range 2 {
		beat, _ := out.Next(ctx)
		fmt.Println(beat)
	}
	fmt.Println(app.Stop(ctx))
	// Output:
	// alive
	// alive
	// <nil>
}
