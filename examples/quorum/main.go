// Command quorum decides requests by the votes of replicas, some of which come late
// or twice.
package main

import (
	"context"
	"fmt"
	"log"

	"github.com/millrace/millrace/dataflow"
)

func main() {
	ctx := context.Background()
	flow := dataflow.New()
	q := newQuorum(flow, 3)
	app, err := dataflow.Start(ctx, flow)
	check(err)

	vote := func(replica, request string, yes bool) {
		fmt.Printf("%-6s says %-5v to %s\n", replica, yes, request)
		check(q.ballots.Send(ctx, replica, ballot{request, yes}))
	}
	tell := func(request string) {
		verdict, err := q.verdicts.Await(ctx, request)
		if err != nil {
			verdict = "not decided: " + err.Error()
		}
		fmt.Printf("  %s: %s\n", request, verdict)
	}

	vote("berlin", "add a node", true)
	vote("lisbon", "add a node", false)
	vote("oslo", "add a node", true)
	tell("add a node")

	vote("lisbon", "drop a table", false)
	vote("lisbon", "drop a table", false) // again: it has heard nothing
	vote("berlin", "drop a table", true)
	vote("oslo", "drop a table", true)
	tell("drop a table")

	vote("lisbon", "add a node", false) // again, and too late
	tell("add a node")

	vote("oslo", "rename a column", true)
	check(app.Stop(ctx))
	tell("rename a column") // whoever waits for votes that never came is told so
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
