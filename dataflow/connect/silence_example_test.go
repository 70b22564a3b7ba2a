package connect_test

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
)

// Two splits are stamped by the times in their records. Reading one split first does not make the other one late.
func ExampleSplitsInput() {
	flow := dataflow.New()
	port, seconds, notices := connect.SplitsInput[int](dataflow.At[store](flow), "seconds")
	time := func(s int) window.Time { return window.Time(0).Add(time.Duration(s) * time.Second) }
	events, late := window.StampSplits(seconds, notices, time, window.Disorder{}, "a split is silent when it gives nothing for a minute")
	line := func(split string, e window.Event[int]) string { return fmt.Sprint(split, " ", e.Value) }
	out := dataflow.Output(keyedstream.Values(keyedstream.MapWithKey(events, line)), "events")
	keyedstream.Output(late, "late")
	ctx := context.Background()
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		panic(err)
	}
	for _, split := range []string{"a", "b"} { // as connect.Attach does with those that it finds
		if err := port.Notify(ctx, split, window.SplitNotice{Is: window.SplitFound}); err != nil {
			panic(err)
		}
	}
	for i, split := range []string{"a", "a", "b"} {
		var b connect.Batch[string, int]
		b.Add(split, 100-10*i, dataflow.Position{Major: uint64(i + 1)})
		if i == 1 {
			b.Values[0] = 200
		}
		if err := port.Send(ctx, split, &b); err != nil {
			panic(err)
		}
		e, err := out.Next(ctx)
		fmt.Println(e, err)
	}
	if err := app.Stop(ctx); err != nil {
		panic(err)
	}
	// Output:
	// a 100 <nil>
	// a 200 <nil>
	// b 80 <nil>
}
