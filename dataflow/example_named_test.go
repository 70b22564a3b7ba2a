package dataflow_test

import (
	"fmt"

	"github.com/millrace/millrace/dataflow"
	"github.com/millrace/millrace/singleton"
)

// A named operator keeps its state in a durable history when the program around it changes.
func ExampleNamed() {
	type Server struct{ dataflow.Process }
	flow := dataflow.New()
	_, orders := dataflow.Input[int](dataflow.At[Server](flow), "orders")
	total := dataflow.Named("total", dataflow.Sum(orders))
	singleton.Output(total, "shown")

	defer func() { fmt.Println(recover() != nil) }()
	dataflow.Named("total", dataflow.Count(orders)) // a name is used once at a location
	// Output: true
}
