package singleton_test

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/singleton"
	"github.com/millrace/millrace/slice"
)

// A Road is the location of the package example.
type Road struct{ dataflow.Process }

// A singleton has a value from the start, and a reader sees the latest one.
func Example() {
	ctx := context.Background()
	flow := dataflow.New()
	in, cars := dataflow.Input[string](dataflow.At[Road](flow), "cars")
	text := singleton.Map(dataflow.Count(cars), func(n int) string { return fmt.Sprint(n, " cars so far") })
	sign := singleton.Output(text, "sign")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		panic(err)
	}
	fmt.Println(sign.Latest())
	in.Send(ctx, "ab 12")
	in.Send(ctx, "cd 34")
	app.Stop(ctx)
	fmt.Println(sign.Latest())
	// Output:
	// 0 cars so far true
	// 2 cars so far true
}

func ExampleMap() {
	dataflow.Local(func(at dataflow.Here) {
		steps := dataflow.Fold(dataflow.Of(at, 4000, 2500), func() int { return 0 }, func(sum *int, n int) { *sum += n })
		left := singleton.Map(steps, func(n int) string { return fmt.Sprint(10_000-n, " steps to go") })
		dataflow.Print(singleton.IntoStream(left))
	})
	// Output:
	// 3500 steps to go
}

func ExampleZip() {
	dataflow.Local(func(at dataflow.Here) {
		in, grades := dataflow.Input[int](at, "grades")
		sum := dataflow.Fold(grades, func() int { return 0 }, func(sum *int, g int) { *sum += g })
		tick := slice.At(at)
		// One slice reads both changing values, so that they are consistent.
		both := singleton.Zip(
			slice.Snapshot(tick, sum, "a mean may be a moment old"),
			slice.Snapshot(tick, dataflow.Count(grades), "a mean may be a moment old"))
		mean := singleton.Map(both, func(p dataflow.Pair[int, int]) string {
			if p.Second == 0 {
				return "no grades"
			}
			return fmt.Sprint("mean ", float64(p.First)/float64(p.Second))
		})
		dataflow.Print(slice.Emit(singleton.IntoStream(mean)))

		in.SendBatch(context.Background(), []int{1, 2, 6})
	})
	// Output:
	// no grades
	// mean 3
}

func ExampleIntoStream() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(singleton.IntoStream(dataflow.Count(dataflow.Of(at, "ann", "bob"))))
	})
	// Output:
	// 2
}
