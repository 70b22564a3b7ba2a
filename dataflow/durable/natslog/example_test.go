package natslog_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/nats-io/nats.go"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/natslog"
	"github.com/millrace/millrace/keyedsingleton"
)

// A Desk is the location of the example.
type Desk struct{ dataflow.Process }

// Ports are the inputs and outputs of the example's flow.
type Ports struct {
	Requests *dataflow.EntryInputPort[string, string]
	Answers  *dataflow.EntryOutputPort[string, string]
}

func build(flow *dataflow.Flow) Ports {
	in, requests := keyedsingleton.Input[string, string](dataflow.At[Desk](flow), "requests")
	return Ports{in, keyedsingleton.Output(keyedsingleton.Map(requests, func(name string) string { return "hello, " + name }), "answers")}
}

// A program keeps its history on a shared NATS cluster or, as here, on an embedded server.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "millrace")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	log := natslog.Embedded(dir)
	if url := os.Getenv("DESK_CLUSTER"); url != "" {
		log = natslog.Servers(natslog.Options{URLs: []string{url}, NATS: []nats.Option{nats.Name("desk")}})
	}
	options := durable.Options{Log: log, Name: "desk", Logger: slog.New(slog.DiscardHandler)}

	app, err := durable.Start(ctx, build, options)
	if err != nil {
		panic(err)
	}
	fmt.Println(app.Ports.Requests.Put(ctx, "request 1", "ann"))
	fmt.Println(app.Stop(ctx))

	if app, err = durable.Start(ctx, build, options); err != nil {
		panic(err)
	}
	fmt.Println(app.Ports.Answers.Await(ctx, "request 1"))
	fmt.Println(app.Stop(ctx))
	// Output:
	// <nil>
	// <nil>
	// hello, ann <nil>
	// <nil>
}
