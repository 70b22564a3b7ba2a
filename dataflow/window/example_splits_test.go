package window_test

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/window"
	"github.com/millrace/millrace/keyedstream"
)

// Two files are read at their own speeds, and one of them falls silent. Package connect sends the notices of a source that it
// reads; see connect.SplitsInput.
func ExampleStampSplits() {
	type entry struct {
		At   window.Time
		Text string
	}
	at := func(s int, text string) entry {
		return entry{window.Time(0).Add(time.Duration(s) * time.Second), text}
	}
	flow := dataflow.New()
	here := dataflow.At[server](flow)
	in, entries := keyedstream.Input[string, entry](here, "entries")
	told, notices := keyedstream.SharedInput[string, window.SplitNotice](here, "notices")
	events, late := window.StampSplits(entries, notices, func(e entry) window.Time { return e.At }, window.Disorder{}, "a file is silent when its reader says so")
	closed, _ := window.Count(keyedstream.Rekey(events, func(string, window.Event[entry]) string { return "all" }), window.Every(10*time.Second))
	text := func(e window.Event[entry]) string { return e.Value.Text }
	lates := dataflow.Output(dataflow.Map(keyedstream.Values(late), text), "late")
	counts := dataflow.Output(counted(closed), "counts")
	ctx := context.Background()
	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		panic(err)
	}
	must := func(err error) {
		if err != nil {
			panic(err)
		}
	}
	_, err = told.SendBatch(ctx, []string{"a", "b"}, []window.SplitNotice{{Is: window.SplitFound}, {Is: window.SplitFound}})
	must(err)
	must(in.Send(ctx, "a", at(1, "first of a")))
	must(in.Send(ctx, "a", at(100, "second of a")))
	must(in.Send(ctx, "b", at(2, "first of b"))) // not late
	must(in.Send(ctx, "b", at(30, "second of b")))
	must(told.Send(ctx, "b", window.SplitNotice{Is: window.SplitIdle})) // from here the mark is that of a
	must(in.Send(ctx, "b", at(31, "third of b")))
	in.Close()
	told.Close()
	for line := range lates.All(ctx) {
		fmt.Println("late:", line)
	}
	for line := range counts.All(ctx) {
		fmt.Println(line)
	}
	must(app.Wait())
	// Output:
	// late: third of b
	// all[0,10)=2
	// all[30,40)=1
	// all[100,110)=1
}
