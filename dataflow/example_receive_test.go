package dataflow_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/millrace/millrace/dataflow"
)

func ExampleOutputPort_Receive() {
	flow := dataflow.New()
	in, numbers := dataflow.Input[int](dataflow.At[Station](flow), "numbers")
	out := dataflow.Output(numbers, "all")
	app, _ := dataflow.Start(context.Background(), flow)

	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			for {
				d, err := out.Receive(context.Background())
				if err != nil {
					return
				}
				fmt.Println("handled", d.Value)
				d.Ack() // a durable flow gives it again if the process is killed before
			}
		})
	}
	for n := range 4 {
		in.Send(context.Background(), n)
	}
	in.Close()
	workers.Wait()
	fmt.Println(app.Err())
	// Unordered output:
	// handled 0
	// handled 1
	// handled 2
	// handled 3
	// <nil>
}
