package durable_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/dataflow/durable"
	"github.com/millrace/millrace/dataflow/durable/journal"
	"github.com/millrace/millrace/keyedsingleton"
)

// An order that the program cannot handle is quarantined. The other orders continue.
func ExampleApp_Quarantine() {
	type ports struct {
		Orders *dataflow.EntryInputPort[string, int]
		Shares *dataflow.EntryOutputPort[string, int]
	}
	ctx, mended := context.Background(), false
	build := func(f *dataflow.Flow) ports {
		in, orders := keyedsingleton.Input[string, int](dataflow.At[Server](f), "orders")
		shares := keyedsingleton.Map(orders, func(people int) int {
			if people == 0 && mended {
				return 0
			}
			return 100 / people
		})
		return ports{in, keyedsingleton.Output(shares, "shares")}
	}
	log := journal.NewMemory(journal.MemoryOptions{})
	app, err := durable.Start(ctx, build, durable.Options{Log: journal.Opened{Log: log}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		panic(err)
	}
	err = app.Ports.Orders.Put(ctx, "a", 0)
	fmt.Println(errors.As(err, new(*durable.QuarantinedError)))
	fmt.Println(app.Ports.Orders.Put(ctx, "b", 4))
	fmt.Println(app.Ports.Shares.Await(ctx, "b"))

	letters, _ := app.Quarantine(ctx)
	fmt.Println(len(letters), letters[0].Reason)
	mended = true // as a new program would be
	fmt.Println(app.Retry(ctx, letters[0].Partition, letters[0].ID))
	fmt.Println(app.Ports.Shares.Await(ctx, "a"))
	fmt.Println(app.Stop(ctx))
	// Output:
	// true
	// <nil>
	// 25 <nil>
	// 1 runtime error: integer divide by zero
	// <nil>
	// 0 <nil>
	// <nil>
}
