// Command quotes answers orders at a price that changes while they come.
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
	d := newDesk(flow, 10)
	app, err := dataflow.Start(ctx, flow)
	check(err)

	ask := func(id string, pieces int) {
		if err := d.orders.Put(ctx, id, order{pieces}); err != nil {
			fmt.Printf("%s: %v\n", id, err)
		}
		q, err := d.quotes.Await(ctx, id)
		check(err)
		fmt.Printf("%s: %d pieces at %d: %d\n", id, q.Pieces, q.Each, q.Total)
	}
	set := func(revision, price int) {
		check(d.prices.Put(ctx, revision, price))
		_, err := d.set.Await(ctx, revision)
		check(err)
		fmt.Printf("price %d is %d\n", revision, price)
	}

	ask("order a", 3)
	set(1, 12)
	ask("order b", 3)
	set(3, 15)
	set(2, 14) // was on its way for longer, and no longer counts
	ask("order c", 2)
	ask("order a", 3) // again: the id is the order, and has its quote
	check(app.Stop(ctx))
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
