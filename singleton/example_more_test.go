package singleton_test

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/optional"
	"github.com/millrace/millrace/singleton"
)

func ExampleOf() {
	dataflow.Local(func(at dataflow.Here) {
		rate := singleton.Of(at, 1.25)
		prices := dataflow.CrossSingleton(dataflow.Of(at, 4.0, 10), rate)
		dataflow.Print(dataflow.Map(prices, func(p dataflow.Pair[float64, float64]) float64 { return p.First * p.Second }))
	})
	// Output:
	// 5
	// 12.5
}

func ExampleFilter() {
	dataflow.Local(func(at dataflow.Here) {
		late := singleton.Filter(dataflow.Sum(dataflow.Of(at, 4, 11)), func(minutes int) bool { return minutes > 10 })
		dataflow.Print(dataflow.Map(optional.IntoStream(late), func(minutes int) string {
			return fmt.Sprint("running ", minutes, " minutes late")
		}))
	})
	// Output:
	// running 15 minutes late
}

func ExampleFilterMap() {
	dataflow.Local(func(at dataflow.Here) {
		last := singleton.FilterMap(singleton.Of(at, []string{"a", "b", "c"}), func(words []string) (string, bool) {
			if len(words) == 0 {
				return "", false
			}
			return words[len(words)-1], true
		})
		dataflow.Print(optional.IntoStream(last))
	})
	// Output:
	// c
}

func ExampleMapGrowing() {
	dataflow.Local(func(at dataflow.Here) {
		in, laps := dataflow.Input[string](at, "laps")
		meters := singleton.MapGrowing(dataflow.Count(laps), func(n int) int { return 400 * n }, "more laps are more meters")
		dataflow.Print(singleton.Threshold(meters, 1000))

		in.SendBatch(context.Background(), []string{"ann", "ann", "ann", "ann"})
	})
	// Output:
	// 1000
}

func ExampleThreshold() {
	dataflow.Local(func(at dataflow.Here) {
		in, votes := dataflow.Input[string](at, "votes")
		quorum := singleton.Threshold(dataflow.Count(votes), 3)
		dataflow.Print(dataflow.Map(quorum, func(n int) string { return fmt.Sprint("quorum of ", n) }))

		in.SendBatch(context.Background(), []string{"ann", "bob", "cho", "dag"})
	})
	// Output:
	// quorum of 3
}

// A Gate is the location of an example.
type Gate struct{ dataflow.Process }

func ExampleOutput() {
	ctx := context.Background()
	flow := dataflow.New()
	in, visitors := dataflow.Input[int](dataflow.At[Gate](flow), "visitors")
	out := singleton.Output(dataflow.Sum(visitors), "inside")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, n := range []int{5, 2, -3} {
		in.Send(ctx, n) // the location is idle, so that Send runs it
	}
	fmt.Println(out.Latest())
	app.Stop(ctx)
	for inside := range out.Watch(ctx) {
		fmt.Println("skipped to", inside)
	}
	// Output:
	// 4 true
	// skipped to 4
}
