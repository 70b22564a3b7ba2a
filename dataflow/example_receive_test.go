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
				d.Ack() // a durable flow delivers it again if the process is killed before this
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

// A reader that stores its result together with the number of the last element handles each element once, even if
// elements are delivered again.
func ExampleOutputPort_ReceiveBatch() {
	flow := dataflow.New()
	in, numbers := dataflow.Input[int](dataflow.At[Station](flow), "numbers")
	out := dataflow.Output(numbers, "all")
	dataflow.Start(context.Background(), flow)
	in.SendBatch(context.Background(), []int{10, 20, 30})

	sum, last := 0, uint64(0) // a real reader stores both in one transaction
	for last < 3 {
		b, err := out.ReceiveBatch(context.Background(), 100)
		if err != nil {
			break
		}
		for i, n := range b.Elements {
			if number := b.First + uint64(i); number > last {
				sum, last = sum+n, number
			}
		}
		b.Ack()
	}
	fmt.Println(sum, last)
	// Output: 60 3
}
