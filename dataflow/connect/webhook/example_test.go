package webhook_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/connect"
	"github.com/millrace/millrace/dataflow/connect/webhook"
)

type office struct{ dataflow.Process }

// Orders are posted to an endpoint. It refuses one of them, and the refusal is printed.
func Example() {
	ctx := context.Background()
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			log.Fatal(err)
		}
		if string(body) == `"tea"` {
			http.Error(w, "no tea", http.StatusUnprocessableEntity)
			return
		}
		fmt.Printf("%s: %s\n", r.Header.Get("Idempotency-Key"), body)
	}))
	defer endpoint.Close()

	f := dataflow.New()
	in, orders := dataflow.Input[string](dataflow.At[office](f), "orders")
	out := dataflow.Output(orders, "out")
	app, err := dataflow.Start(ctx, f)
	if err != nil {
		log.Fatal(err)
	}
	drains := connect.Drain(ctx, app, out, webhook.Sink[string]{
		URL: endpoint.URL,
		Refused: func(_ context.Context, r webhook.Refusal[string]) error {
			fmt.Printf("%s was refused with %d: %s", r.Element, r.Status, r.Answer)
			return nil
		},
	}, connect.DrainOptions{Flow: "office", Output: "orders"})
	for _, order := range []string{"bread", "tea", "milk"} {
		if err := in.Send(ctx, order); err != nil {
			log.Fatal(err)
		}
	}
	if err := app.Stop(ctx); err != nil {
		log.Fatal(err)
	}
	<-drains.Done() // everything is written
	if err := drains.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// office/orders/0/1: "bread"
	// tea was refused with 422: no tea
	// office/orders/0/3: "milk"
}

// Requests are signed according to Standard Webhooks. The message id is the key.
func ExampleSink() {
	ctx := context.Background()
	endpoint := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Signature") != "")
	}))
	defer endpoint.Close()
	var sink connect.Sink[int, connect.Idempotent] = webhook.Sink[int]{
		URL:     endpoint.URL,
		Secrets: []string{"whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"},
	}
	w, _, err := sink.Open(ctx, connect.Lane{Flow: "office", Output: "orders"})
	if err != nil {
		log.Fatal(err)
	}
	defer w.Close()
	if _, err := w.Write(ctx, 7, []int{42}); err != nil {
		log.Fatal(err)
	}
	// Output:
	// office/orders/0/7 true
}
