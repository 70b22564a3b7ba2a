// Command ratelimit lets each client make so many requests in any window of time.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/millrace/millrace/dataflow"
)

func main() {
	ctx := context.Background()
	flow := dataflow.New()
	l := newLimiter(flow, rule{Limit: 3, Window: time.Second})
	app, err := dataflow.Start(ctx, flow)
	check(err)

	request := func(id, client string) {
		check(l.requests.Send(ctx, client, id))
		a, err := l.answers.Await(ctx, id)
		check(err)
		word := "passes"
		if !a.Passed {
			word = "is refused"
		}
		fmt.Printf("%s of %s %s, %d left\n", id, client, word, a.Left)
	}

	request("request 1", "ann")
	request("request 2", "ann")
	request("request 3", "ann")
	request("request 4", "ann") // one too many
	request("request 5", "bob") // has permits of his own

	for n := range l.inUse.Watch(ctx) {
		if n == 0 {
			fmt.Println("the windows of all requests are over")
			break
		}
	}
	request("request 6", "ann")
	check(app.Stop(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
