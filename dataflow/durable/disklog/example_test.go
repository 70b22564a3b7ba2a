package disklog_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/disklog"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

type Server struct{ dataflow.Process }

// Ports are the inputs and outputs of the flow.
type Ports struct {
	Votes  *dataflow.KeyedInputPort[string, bool]
	Passed *dataflow.EntryOutputPort[string, int]
}

func build(flow *dataflow.Flow) Ports {
	votes, cast := keyedstream.Input[string, bool](dataflow.At[Server](flow), "votes")
	yes := keyedstream.Filter(cast, func(yes bool) bool { return yes })
	passed := keyedstream.FoldEarlyStop(yes, func() int { return 0 }, func(n *int, _ bool) bool { *n++; return *n == 3 })
	return Ports{votes, keyedsingleton.Output(passed, "passed")}
}

// The first process casts two votes. The second one casts the third and finds the others in the
// folder.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "millrace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	opts := durable.Options{Log: disklog.Dir(dir), Logger: slog.New(slog.DiscardHandler)}

	app, err := durable.Start(ctx, build, opts)
	if err != nil {
		panic(err)
	}
	app.Ports.Votes.Send(ctx, "longer lunch", true)
	app.Ports.Votes.Send(ctx, "longer lunch", true)
	fmt.Println(app.Stop(ctx))

	if app, err = durable.Start(ctx, build, opts); err != nil {
		panic(err)
	}
	app.Ports.Votes.Send(ctx, "longer lunch", true)
	fmt.Println(app.Ports.Passed.Await(ctx, "longer lunch"))
	fmt.Println(app.Stop(ctx))
	// Output:
	// <nil>
	// 3 <nil>
	// <nil>
}
