package keyedstream_test

import (
	"context"
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/keyedstream"
)

// A Parliament is the location at which proposals are decided.
type Parliament struct{ dataflow.Process }

// A proposal passes as soon as it has three yes votes. Votes come from anywhere, in no order. FoldEarlyStop needs an order,
// so the program states why any order will do.
func Example() {
	ctx := context.Background()
	flow := dataflow.New()
	votes, cast := keyedstream.SharedInput[string, bool](dataflow.At[Parliament](flow), "votes")
	yes := keyedstream.Filter(cast, func(yes bool) bool { return yes })
	counted := keyedstream.AssumeOrder(yes, "three are three, whichever of them are first")
	passed := keyedstream.FoldEarlyStop(counted, func() int { return 0 }, func(n *int, _ bool) bool { *n++; return *n == 3 })
	out := keyedsingleton.Output(passed, "passed")

	app, err := dataflow.Start(ctx, flow)
	if err != nil {
		panic(err)
	}
	for _, vote := range []bool{true, false, true, true, true} {
		go votes.Send(ctx, "longer lunch", vote)
	}
	fmt.Println(out.Await(ctx, "longer lunch"))
	app.Stop(ctx)
	// Output:
	// 3 <nil>
}
