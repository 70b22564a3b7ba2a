// Command counter counts by key, and whoever has seen an increment acknowledged sees
// it in the count.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/millrace/millrace/dataflow"
)

func main() {
	ctx := context.Background()
	flow := dataflow.New()
	c := newCounter(flow)
	app, err := dataflow.Start(ctx, flow)
	check(err)

	add := func(id, name string, by int) {
		again := ""
		if err := c.increments.Put(ctx, id, increment{name, by}); errors.Is(err, dataflow.ErrDuplicateKey) {
			again = ", as it was before"
		} else {
			check(err)
		}
		ack, err := c.acks.Await(ctx, id)
		check(err)
		fmt.Printf("%s: %s %+d is acknowledged%s\n", id, ack.Counter, ack.By, again)
	}
	get := func(id, name string) {
		check(c.gets.Put(ctx, id, name))
		value, err := c.values.Await(ctx, id)
		check(err)
		fmt.Printf("%s: %s is %d\n", id, name, value)
	}

	get("get 1", "visits")
	add("add 1", "visits", 1)
	get("get 2", "visits")
	add("add 2", "visits", 2)
	add("add 3", "errors", 1)
	add("add 2", "visits", 2) // again: its sender has not seen the answer
	get("get 3", "visits")
	get("get 4", "errors")
	get("get 5", "logins") // nobody has added to it
	check(app.Stop(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
