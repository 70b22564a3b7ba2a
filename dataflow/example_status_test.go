package dataflow_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedstream"
)

// Status tells what a location has done and what waits there. Two of them, with their
// times, give rates.
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

// A graph is drawn without another program.
func ExampleGraph_SVG() {
	flow := dataflow.New()
	_, words := dataflow.Input[string](dataflow.At[Station](flow), "words")
	dataflow.Output(words, "kept")
	svg := flow.Graph().SVG()
	fmt.Println(strings.HasPrefix(svg, "<svg "), strings.Count(svg, "<rect"))
	// Output:
	// true 2
}
