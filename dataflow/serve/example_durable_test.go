package serve_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/dataflow/serve"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

// tickets sells numbered tickets. Every request must have an id.
func tickets(flow *dataflow.Flow) http.Handler {
	shop := dataflow.At[Shop](flow)
	router, requests := serve.HTTP(shop, "tickets", serve.Options{Idempotent: &serve.Idempotency{}})
	tick := slice.At(shop)
	buyers := slice.BatchEntries(tick, requests, "each buyer is served once")
	sold := slice.Snapshot(tick, keyedsingleton.KeyCount(requests), "a buyer is told the number of the moment")
	router.Respond(slice.EmitEntries(keyedsingleton.Map(keyedsingleton.CrossSingleton(buyers, sold),
		func(p dataflow.Pair[*serve.Request, int]) serve.Response {
			return serve.Text(http.StatusCreated, fmt.Sprintf("%s has ticket %d", p.First.Body, p.Second))
		})))
	return router
}

// Ids belong to a caller. A request without a required id is refused.
func ExampleIdempotency() {
	flow := dataflow.New()
	handler := tickets(flow)
	dataflow.Start(context.Background(), flow)
	print(handler, "POST", "/", "Ada")
	print(handler, "POST", "/", "Ada", "Idempotency-Key", "1", "Authorization", "ada")
	print(handler, "POST", "/", "Ada", "Idempotency-Key", "1", "Authorization", "ada")
	print(handler, "POST", "/", "Ben", "Idempotency-Key", "1", "Authorization", "ben")
	print(handler, "POST", "/", "Cem", "Idempotency-Key", "1", "Authorization", "ben")
	// Output:
	// 400 the request must have an id in a header: see the documentation of the service
	// 201 Ada has ticket 1
	// 201 Ada has ticket 1
	// 201 Ben has ticket 2
	// 422 the request's id was used before, for another request
}

// A repeat that reaches the next process gets the answer of the first request.
func Example_durable() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "tickets")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	for _, buyer := range []string{"Ada", "Ben"} {
		app, err := durable.Start(ctx, tickets, durable.Options{Log: natslog.Embedded(dir), Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			panic(err)
		}
		print(app.Ports, "POST", "/", buyer, "Idempotency-Key", buyer)
		print(app.Ports, "POST", "/", "Ada", "Idempotency-Key", "Ada")
		fmt.Println(app.Stop(ctx))
	}
	// Output:
	// 201 Ada has ticket 1
	// 201 Ada has ticket 1
	// <nil>
	// 201 Ben has ticket 2
	// 201 Ada has ticket 1
	// <nil>
}
