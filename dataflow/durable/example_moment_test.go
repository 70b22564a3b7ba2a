package durable_test

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedstream"
)

// The history of a running flow shows the state of a key after a step, and what has changed since.
func ExampleApp_History() {
	ctx := context.Background()
	type ports struct {
		Paid    *dataflow.KeyedInputPort[string, int]
		Amounts *dataflow.OutputPort[int]
	}
	app, err := durable.Start(ctx, func(f *dataflow.Flow) ports {
		in, paid := keyedstream.Input[string, int](dataflow.At[Server](f), "paid")
		dataflow.Named("balance", keyedstream.Sum(paid))
		return ports{in, dataflow.Output(keyedstream.Values(paid), "amounts")}
	}, durable.Options{Log: journal.Opened{Log: journal.NewMemory(journal.MemoryOptions{})}, KeepFor: durable.Forever, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	var steps []uint64
	for _, amount := range []int{30, 5, 7} {
		if err := app.Ports.Paid.Send(ctx, "ada", amount); err != nil {
			panic(err)
		}
		if _, err := app.Ports.Amounts.Receive(ctx); err != nil { // its step is done
			panic(err)
		}
		steps = append(steps, app.Status()[0].Step)
	}

	history, err := app.History(ctx)
	if err != nil {
		panic(err)
	}
	defer history.Close()
	moment, err := history.At(ctx, 0, steps[1])
	if err != nil {
		panic(err)
	}
	defer moment.Close()
	took := moment.Took(10)[0]
	fmt.Println(history.Graph().Operators[took.Operator].Port, took.Records)
	entries, _ := moment.Lookup("ada")
	fmt.Println("ada has", entries[0].Value)

	diff, _ := history.Diff(ctx, 0, steps[0], steps[2], durable.DiffOptions{Key: "ada"})
	for _, c := range diff.Changes {
		fmt.Println(history.Graph().Operators[c.Operator].Label, c.Before.Value, "became", c.After.Value)
	}
	fmt.Println(app.Stop(ctx))
	// Output:
	// paid [{ada 5}]
	// ada has 35
	// balance 30 became 42
	// <nil>
}
