package dataflow_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
	"github.com/millrace/millrace/slice"
)

// Station is the location of some examples. A location is a type that the program
// declares.
type Station struct{ dataflow.Process }

func Example() {
	ctx := context.Background()
	flow := dataflow.New()
	station := dataflow.At[Station](flow)

	readings, celsius := dataflow.Input[float64](station, "readings")
	fahrenheit := dataflow.Map(celsius, func(c float64) float64 { return c*9/5 + 32 })
	hot := dataflow.Output(dataflow.Filter(fahrenheit, func(f float64) bool { return f > 86 }), "hot")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, c := range []float64{21, 35, 29.5, 31} {
		readings.Send(ctx, c)
	}
	app.Stop(ctx)
	for f := range hot.All(ctx) {
		fmt.Println(f)
	}
	// Output:
	// 95
	// 87.8
}

func ExampleNew() {
	flow := dataflow.New()
	station := dataflow.At[Station](flow)
	dataflow.Print(dataflow.Of(station, "nothing happens before Run"))

	fmt.Println("built")
	dataflow.Run(context.Background(), flow)
	// Output:
	// built
	// nothing happens before Run
}

func ExampleNewWithOptions() {
	ctx := context.Background()
	// A location with two unread alarms takes no more readings until one is read.
	flow := dataflow.NewWithOptions(dataflow.Options{Queue: 1, Buffer: 1})
	readings, celsius := dataflow.Input[int](dataflow.At[Station](flow), "readings")
	alarms := dataflow.Output(celsius, "alarms")
	app, _ := dataflow.Start(ctx, flow)

	go func() {
		for c := range 1000 {
			readings.Send(ctx, c)
		}
		readings.Close()
	}()
	n := 0
	for range alarms.All(ctx) {
		n++
	}
	fmt.Println(n, "alarms, none lost", app.Err())
	// Output:
	// 1000 alarms, none lost <nil>
}

func ExampleAt() {
	flow := dataflow.New()
	station := dataflow.At[Station](flow) // the only place that names the location

	dataflow.Print(dataflow.Map(dataflow.Of(station, 3, 4), func(x int) int { return x * x }))
	dataflow.Run(context.Background(), flow)
	// Output:
	// 9
	// 16
}

func ExampleStart() {
	ctx := context.Background()
	flow := dataflow.New()
	in, names := dataflow.Input[string](dataflow.At[Station](flow), "names")
	greetings := dataflow.Output(dataflow.Map(names, func(s string) string { return "hello, " + s }), "greetings")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	in.Send(ctx, "Ann")
	fmt.Println(greetings.Next(ctx))

	fmt.Println(app.Stop(ctx))
	fmt.Println(in.Send(ctx, "Bob"))
	// Output:
	// hello, Ann <nil>
	// <nil>
	// dataflow: input is closed
}

// A function that panics ends the flow with an error that says where.
func ExampleStart_failure() {
	ctx := context.Background()
	flow := dataflow.New()
	in, orders := keyedsingleton.Input[string, int](dataflow.At[Station](flow), "orders")
	keyedsingleton.Map(orders, func(people int) int { return 100 / people })

	app, _ := dataflow.Start(ctx, flow)
	in.Put(ctx, "table 4", 0)

	var step *dataflow.StepError
	if errors.As(app.Wait(), &step) {
		fmt.Println(step.Op, "at", step.Location, "on", step.Key)
		fmt.Println(step.Err)
	}
	// Output:
	// keyedsingleton.Map at Station on table 4
	// runtime error: integer divide by zero
}

func ExampleRun() {
	flow := dataflow.New()
	in, words := dataflow.Input[string](dataflow.At[Station](flow), "words")
	dataflow.Print(dataflow.Map(words, strings.ToUpper))

	// Values that are sent before the start wait. Run returns when all inputs are closed
	// and all values were handled.
	in.Send(context.Background(), "steady")
	in.Send(context.Background(), "flow")
	in.Close()
	fmt.Println(dataflow.Run(context.Background(), flow))
	// Output:
	// STEADY
	// FLOW
	// <nil>
}

func ExampleLocal() {
	dataflow.Local(func(at dataflow.Here) {
		dataflow.Print(dataflow.Of(at, "one location", "run to its end"))
	})
	// Output:
	// one location
	// run to its end
}

func ExampleFlow_Reasons() {
	flow := dataflow.New()
	station := dataflow.At[Station](flow)
	_, calls := keyedsingleton.Input[string, string](station, "calls")
	tick := slice.At(station)
	slice.BatchEntries(tick, calls, "each call is judged alone, so batch boundaries are invisible")

	for _, r := range flow.Reasons() {
		fmt.Println(r.Op)
		fmt.Println(r.Why)
	}
	// Output:
	// slice.BatchEntries
	// each call is judged alone, so batch boundaries are invisible
}

func ExampleInput() {
	dataflow.Local(func(at dataflow.Here) {
		door, visitors := dataflow.Input[string](at, "door")
		dataflow.Print(visitors)

		door.Send(context.Background(), "Ann")
		door.SendBatch(context.Background(), []string{"Bob", "Cid"})
	})
	// Output:
	// Ann
	// Bob
	// Cid
}

func ExampleOutput() {
	ctx := context.Background()
	flow := dataflow.New()
	in, prices := dataflow.Input[int](dataflow.At[Station](flow), "prices")
	out := dataflow.Output(dataflow.Map(prices, func(cents int) string { return fmt.Sprintf("%d.%02d", cents/100, cents%100) }), "labels")
	dataflow.Start(ctx, flow)

	in.Send(ctx, 1999)
	in.Close()
	fmt.Println(out.Next(ctx))
	_, err := out.Next(ctx)
	fmt.Println(err == io.EOF)
	// Output:
	// 19.99 <nil>
	// true
}

func ExampleEntryOutputPort_Take() {
	ctx := context.Background()
	flow := dataflow.New()
	in, requests := keyedsingleton.Input[string, int](dataflow.At[Station](flow), "requests")
	out := keyedsingleton.Output(keyedsingleton.Map(requests, func(x int) int { return x * x }), "squares")
	dataflow.Start(ctx, flow)

	in.Put(ctx, "r1", 12)
	fmt.Println(out.Take(ctx, "r1"))
	fmt.Println(out.Len(), "entries are kept")
	// Output:
	// 144 <nil>
	// 0 entries are kept
}

// A service that does not know the keys handles every entry.
func ExampleEntryOutputPort_All() {
	ctx := context.Background()
	flow := dataflow.New()
	in, requests := keyedsingleton.Input[string, int](dataflow.At[Station](flow), "requests")
	out := keyedsingleton.Output(keyedsingleton.Map(requests, func(x int) int { return x * x }), "squares")
	dataflow.Start(ctx, flow)

	in.Put(ctx, "r2", 12)
	in.Put(ctx, "r1", 5)
	in.Close()
	for k, v := range out.All(ctx) {
		fmt.Println(k, v)
	}
	fmt.Println(out.Len(), "entries are kept")
	// Output:
	// r2 144
	// r1 25
	// 0 entries are kept
}

func ExampleView() {
	dataflow.Local(func(at dataflow.Here) {
		words := dataflow.Of(at, "to", "be", "or", "not", "to", "be")
		counts := keyedstream.Count(dataflow.KeyBy(words, strings.ToUpper))
		show(keyedsingleton.IntoSingleton(counts))
	})
	// Output:
	// {BE:2 NOT:1 OR:1 TO:2}
}
