package serve_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/serve"
	"github.com/millrace/millrace/keyedsingleton"
	"github.com/millrace/millrace/slice"
)

// A Shop is the location of the examples: a tag of our own.
type Shop struct{ dataflow.Process }

// print sends a request and prints the answer.
func print(h http.Handler, method, target, body string, headers ...string) {
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(w.Code, strings.TrimSpace(w.Body.String()))
}

func Example() {
	flow := dataflow.New()
	router, requests := serve.HTTP(dataflow.At[Shop](flow), "greetings", serve.Options{})
	router.Respond(keyedsingleton.Map(requests, func(r *serve.Request) serve.Response {
		return serve.Text(http.StatusOK, "hello, "+r.Query.Get("name"))
	}))

	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		fmt.Println(err)
		return
	}
	print(router, "GET", "/?name=Ada", "")
	fmt.Println(app.Stop(context.Background()))
	print(router, "GET", "/?name=Ada", "")
	// Output:
	// 200 hello, Ada
	// <nil>
	// 503 the service has ended
}

// A repeated request is handled once. A service has state: here, the number of tickets sold.
func ExampleHTTP_state() {
	flow := dataflow.New()
	shop := dataflow.At[Shop](flow)
	router, requests := serve.HTTP(shop, "tickets", serve.Options{})

	tick := slice.At(shop)
	buyers := slice.BatchEntries(tick, requests, "each buyer is served once")
	sold := slice.Snapshot(tick, keyedsingleton.KeyCount(requests), "a buyer is told the number of the moment")
	router.Respond(slice.EmitEntries(keyedsingleton.Map(keyedsingleton.CrossSingleton(buyers, sold),
		func(p dataflow.Pair[*serve.Request, int]) serve.Response {
			return serve.Text(http.StatusOK, fmt.Sprintf("%s has ticket %d", p.First.Body, p.Second))
		})))

	dataflow.Start(context.Background(), flow)
	print(router, "POST", "/", "Ada", "Idempotency-Key", "a")
	print(router, "POST", "/", "Ben", "Idempotency-Key", "b")
	print(router, "POST", "/", "Ada", "Idempotency-Key", "a")
	print(router, "POST", "/", "Cem", "Idempotency-Key", "b")
	// Output:
	// 200 Ada has ticket 1
	// 200 Ben has ticket 2
	// 200 Ada has ticket 1
	// 422 the request's id was used before, for another request
}

func ExampleRoutes() {
	flow := dataflow.New()
	router := serve.Routes(dataflow.At[Shop](flow), "shop", serve.Options{})
	prices, asked := router.Handle("GET /prices/{sku}")
	prices.Respond(keyedsingleton.Map(asked, func(r *serve.Request) serve.Response {
		return serve.Text(http.StatusOK, r.PathValue("sku")+" costs 3")
	}))

	dataflow.Start(context.Background(), flow)
	print(router, "GET", "/prices/tea", "")
	print(router, "PUT", "/prices/tea", "")
	print(router, "GET", "/", "")
	// Output:
	// 200 tea costs 3
	// 405 Method Not Allowed
	// 404 404 page not found
}

func ExampleRouter_Handle() {
	flow := dataflow.New()
	router, rest := serve.HTTP(dataflow.At[Shop](flow), "shop", serve.Options{})
	orders, cancelled := router.Handle("DELETE /orders/{id}")
	orders.Respond(keyedsingleton.Map(cancelled, func(r *serve.Request) serve.Response {
		return serve.Text(http.StatusOK, "order "+r.PathValue("id")+" is cancelled")
	}))
	router.Respond(keyedsingleton.Map(rest, func(r *serve.Request) serve.Response {
		return serve.Text(http.StatusNotFound, "there is no "+r.Path)
	}))

	dataflow.Start(context.Background(), flow)
	print(router, "DELETE", "/orders/17", "")
	print(router, "DELETE", "/everything", "")
	// Output:
	// 200 order 17 is cancelled
	// 404 there is no /everything
}

func ExampleJSON() {
	type Order struct {
		SKU string
		N   int
	}
	type Receipt struct {
		Text  string `json:"text"`
		Total int    `json:"total"`
	}
	flow := dataflow.New()
	router := serve.Routes(dataflow.At[Shop](flow), "shop", serve.Options{})
	orders, placed := serve.JSON[Order](router, "POST /orders")
	orders.Respond(keyedsingleton.Map(placed, func(r *serve.RequestOf[Order]) serve.Response {
		return serve.Reply(http.StatusCreated, Receipt{Text: r.Value.SKU, Total: 3 * r.Value.N})
	}))

	dataflow.Start(context.Background(), flow)
	print(router, "POST", "/orders", `{"sku": "tea", "n": 2}`)
	print(router, "POST", "/orders", `{"sku": "tea", "n": "two"}`)
	// Output:
	// 201 {"text":"tea","total":6}
	// 400 the request's body does not fit: the field N cannot be a string
}

func ExampleText() {
	fmt.Printf("%s\n", serve.Text(http.StatusOK, "hello").Body)
	// Output:
	// hello
}

func ExampleReply() {
	r := serve.Reply(http.StatusOK, map[string]int{"n": 1})
	fmt.Printf("%s: %s", r.Header.Get("Content-Type"), r.Body)
	// Output:
	// application/json: {"n":1}
}
