package inspect_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/inspect"
)

// A program serves the page of its flow on its own server.
func Example() {
	flow := dataflow.New()
	in, words := dataflow.Input[string](dataflow.At[server](flow), "words")
	dataflow.Output(words, "kept")
	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		panic(err)
	}
	_ = in.Send(context.Background(), "hello")

	mux := http.NewServeMux()
	mux.Handle("/debug/flow/", http.StripPrefix("/debug/flow", inspect.Handler(app, inspect.Options{Name: "words"})))
	site := httptest.NewServer(mux)
	defer site.Close()
	resp, err := http.Get(site.URL + "/debug/flow/healthz")
	if err != nil {
		panic(err)
	}
	body, _ := io.ReadAll(resp.Body)
	fmt.Printf("%s", body)
	// Output:
	// {
	//   "status": "ok"
	// }
}

// Take returns what the page shows, without a server.
func ExampleTake() {
	flow := dataflow.NewWithOptions(dataflow.Options{Count: true})
	in, words := dataflow.Input[string](dataflow.At[server](flow), "words")
	dataflow.Output(words, "kept")
	app, err := dataflow.Start(context.Background(), flow)
	if err != nil {
		panic(err)
	}
	_ = in.Send(context.Background(), "hello")

	s := inspect.Take(app)
	fmt.Println(s.Locations[0].Name, "took", s.Locations[0].Records)
	fmt.Println(s.Outputs[0].Port, "has", s.Outputs[0].Unread, "unread")
	// Output:
	// server took 1
	// kept has 1 unread
}
