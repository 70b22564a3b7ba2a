// Command replicas writes a value to several replicas and reads it, as many of them as it takes.
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
	r := newRegister(flow, 3, quorum{Write: 2, Read: 2})
	app, err := dataflow.Start(ctx, flow)
	check(err)
	check(r.requests.Send(ctx, request{Number: 1, Write: true, Value: 42}))
	_, err = r.answers.Await(ctx, 1)
	check(err)
	check(r.requests.Send(ctx, request{Number: 2}))
	read, err := r.answers.Await(ctx, 2)
	check(err)
	fmt.Println("two of three replicas have", read.Latest.Value)
	check(app.Stop(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
