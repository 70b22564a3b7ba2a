package durable_test

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// Results that nobody takes within a day are removed from the output, even if the flow is
// down.
func ExampleStart_forget() {
	ctx := context.Background()
	type ports struct {
		votes  *dataflow.KeyedInputPort[string, bool]
		passed *dataflow.EntryOutputPort[string, bool]
	}
	build := func(flow *dataflow.Flow) ports {
		votes, cast := keyedstream.Input[string, bool](dataflow.At[Server](flow), "votes")
		passed := keyedsingleton.ForgetAfter(keyedstream.First(cast), 24*time.Hour, "nobody asks for a result of yesterday")
		return ports{votes, keyedsingleton.Output(passed, "passed")}
	}
	log := journal.NewMemory(journal.MemoryOptions{})
	opts := durable.Options{Log: journal.Opened{Log: log}, Logger: slog.New(slog.DiscardHandler)}
	app, err := durable.Start(ctx, build, opts)
	if err != nil {
		panic(err)
	}
	app.Ports.votes.Send(ctx, "longer lunch", true)
	fmt.Println(app.Ports.passed.Await(ctx, "longer lunch")) // Await does not take it
	app.Stop(ctx)

	opts.Log = journal.Opened{Log: log.Reopen()}
	opts.Now = func() time.Time { return time.Now().Add(25 * time.Hour) } // the flow was down for a day
	if app, err = durable.Start(ctx, build, opts); err != nil {
		panic(err)
	}
	for app.Ports.passed.Len() > 0 {
		<-time.After(time.Millisecond)
	}
	fmt.Println(app.Ports.passed.Len())
	app.Stop(ctx)
	// Output:
	// true <nil>
	// 0
}
