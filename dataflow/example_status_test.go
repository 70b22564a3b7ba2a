package dataflow_test

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Status reports what a location has done and what waits there. Two statuses and their
// times give rates.
func ExampleApp_Status() {
	ctx := context.Background()
	flow := dataflow.NewWithOptions(dataflow.Options{Count: true})
	in, words := dataflow.Input[string](dataflow.At[Station](flow), "words")
	keyedstream.Count(dataflow.KeyBy(words, func(w string) string { return w }))
	out := dataflow.Output(dataflow.Filter(words, func(w string) bool { return len(w) > 3 }), "long")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	in.SendBatch(ctx, []string{"to", "be", "or", "not", "to", "be", "that", "is", "the", "question"})
	out.Next(ctx)
	for _, l := range app.Status() {
		fmt.Println(l.Name, "took", l.Records, "records, and", l.Queued, "wait")
		for _, op := range l.Operators {
			fmt.Println(" ", op.Name, "took", op.Entered, "and keeps", op.Kept)
		}
		for _, o := range l.Outputs {
			fmt.Println(" ", o.Port, "was given", o.Given, "and", o.Unread, "is unread")
		}
	}
	fmt.Println(app.Stop(ctx))
	// Output:
	// Station took 10 records, and 0 wait
	//   dataflow.Input took 10 and keeps 0
	//   dataflow.KeyBy took 10 and keeps 0
	//   keyedstream.Count took 10 and keeps 8
	//   dataflow.Filter took 10 and keeps 0
	//   dataflow.Output took 2 and keeps 1
	//   long was given 2 and 1 is unread
	// <nil>
}

// Lookup returns the state of a key in a running flow.
func ExampleApp_Lookup() {
	ctx := context.Background()
	flow := dataflow.New()
	in, votes := keyedstream.Input[string, int](dataflow.At[Station](flow), "votes")
	keyedsingleton.Output(keyedsingleton.ThresholdUniform(keyedstream.Count(votes), 2), "twice")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	in.Send(ctx, "ada", 1)
	in.Send(ctx, "ada", 1)
	in.Send(ctx, "bob", 1)
	graph := app.Graph()
	for _, name := range []string{"ada", "bob"} {
		found, err := app.Lookup(ctx, name)
		if err != nil {
			fmt.Println(err)
			return
		}
		for _, e := range found {
			fmt.Printf("%s: %s has %q\n", e.Key, graph.Operators[e.Operator].Name, e.Value)
		}
	}
	fmt.Println(app.Stop(ctx))
	// Output:
	// ada: keyedstream.Count has "2"
	// ada: keyedsingleton.ThresholdUniform has ""
	// ada: keyedsingleton.Output has "2"
	// bob: keyedstream.Count has "1"
	// <nil>
}

// Entries returns the state of an operator page by page.
func ExampleApp_Entries() {
	ctx := context.Background()
	flow := dataflow.New()
	in, votes := keyedstream.Input[string, int](dataflow.At[Station](flow), "votes")
	dataflow.Named("count", keyedstream.Count(votes))

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, name := range []string{"ada", "bob", "cyd", "ada"} {
		in.Send(ctx, name, 1)
	}
	count := slices.IndexFunc(app.Graph().Operators, func(o dataflow.GraphOperator) bool { return o.Label == "count" })
	for page := (dataflow.StatePage{More: true}); page.More; {
		if page, err = app.Entries(ctx, count, 0, page.Next, 2); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("a page")
		for _, e := range page.Entries {
			fmt.Println(" ", e.Key, e.Value)
		}
	}
	fmt.Println(app.Stop(ctx))
	// Output:
	// a page
	//   ada 2
	//   bob 1
	// a page
	//   cyd 1
	// <nil>
}

// SVG draws a graph without an external program.
func ExampleGraph_SVG() {
	flow := dataflow.New()
	_, words := dataflow.Input[string](dataflow.At[Station](flow), "words")
	dataflow.Output(words, "kept")
	svg := flow.Graph().SVG()
	fmt.Println(strings.HasPrefix(svg, "<svg "), strings.Count(svg, "<rect"))
	// Output:
	// true 2
}

// A balance is the state of a fold.
type balance struct{ cents, payments int }

// EachState reads the states of a fold or a machine with their Go type, from the package
// that declares the type.
func ExampleEachState() {
	ctx := context.Background()
	flow := dataflow.New()
	in, payments := keyedstream.Input[string, int](dataflow.At[Station](flow), "payments")
	keyedstream.Fold(payments, func() balance { return balance{} }, func(b *balance, cents int) {
		b.cents += cents
		b.payments++
	})

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	in.Send(ctx, "ada", 500)
	in.Send(ctx, "bob", 250)
	in.Send(ctx, "ada", -100)
	_, more, err := dataflow.EachState(ctx, app, dataflow.StatePlace{}, 100, func(name string, b *balance) {
		fmt.Println(name, b.cents, b.payments)
	})
	fmt.Println(more, err)
	fmt.Println(app.Stop(ctx))
	// Unordered output:
	// ada 400 2
	// bob 250 1
	// false <nil>
	// <nil>
}

// StatesOf reads the states of several keys at one moment.
func ExampleStatesOf() {
	ctx := context.Background()
	flow := dataflow.New()
	in, payments := keyedstream.Input[string, int](dataflow.At[Station](flow), "payments")
	keyedstream.Fold(payments, func() balance { return balance{} }, func(b *balance, cents int) {
		b.cents += cents
		b.payments++
	})

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	in.Send(ctx, "ada", 400)
	in.Send(ctx, "bob", 250)
	names, cents := []string{"ada", "bob", "eve"}, make([]int, 3)
	err = dataflow.StatesOf(ctx, app, names, func(i int, b *balance) { cents[i] = b.cents })
	fmt.Println(cents, err)
	fmt.Println(app.Stop(ctx))
	// Output:
	// [400 250 0] <nil>
	// <nil>
}

// StateOf reads the state of one key.
func ExampleStateOf() {
	ctx := context.Background()
	flow := dataflow.New()
	in, payments := keyedstream.Input[string, int](dataflow.At[Station](flow), "payments")
	keyedstream.Fold(payments, func() balance { return balance{} }, func(b *balance, cents int) {
		b.cents += cents
		b.payments++
	})

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	in.Send(ctx, "bob", 250)
	for _, name := range []string{"bob", "eve"} {
		found, err := dataflow.StateOf(ctx, app, name, func(b *balance) { fmt.Println(name, "has", b.cents) })
		fmt.Println(found, err)
	}
	fmt.Println(app.Stop(ctx))
	// Output:
	// bob has 250
	// true <nil>
	// false <nil>
	// <nil>
}
